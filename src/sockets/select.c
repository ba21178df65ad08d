/* SPDX-License-Identifier: MIT */
/* select() in terms of poll(): the same three questions, and the same answers as the kernel's. */
#include <errno.h>
#include <string.h>

#include "os/os.h"
#include "sockets/wait.h"

enum {
    WORD_BITS = 8 * (int)sizeof(unsigned long),
    FEW_SELECTED = 32,
    /* What poll() events make of a descriptor, as the kernel has it. */
    READS = POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR,
    WRITES = POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR,
    EXCEPTS = POLLPRI
};

/* Sets may be larger than fd_set says: programs allocate them so. */
static bool has(const fd_set *set, int fd)
{
    const unsigned long *words = (const unsigned long *)(const void *)set;
    return set != NULL && (words[fd / WORD_BITS] >> (fd % WORD_BITS) & 1) != 0;
}

static void put_in(fd_set *set, int fd)
{
    unsigned long *words = (unsigned long *)(void *)set;
    words[fd / WORD_BITS] |= 1ul << (fd % WORD_BITS);
}

static void clear_all(fd_set *set, int count)
{
    if (set != NULL) {
        memset(set, 0, (size_t)(count + WORD_BITS - 1) / WORD_BITS * sizeof(unsigned long));
    }
}

bool sock_select_is_own(int count, const fd_set *in, const fd_set *out, const fd_set *except)
{
    bool is_own = false;
    for (int fd = 0; fd < count && !is_own; fd++) {
        is_own = (has(in, fd) || has(out, fd) || has(except, fd)) && sock_waits_here(fd);
    }
    return is_own;
}

static nfds_t list_selected(struct pollfd *fds, int count, const fd_set *in, const fd_set *out,
                            const fd_set *except)
{
    nfds_t listed = 0;
    for (int fd = 0; fd < count; fd++) {
        short events =
            (short)((has(in, fd) ? POLLIN | POLLRDNORM | POLLRDBAND : 0) |
                    (has(out, fd) ? POLLOUT | POLLWRNORM | POLLWRBAND : 0) | (has(except, fd) ? POLLPRI : 0));
        if (events != 0) {
            if (fds != NULL) {
                fds[listed] = (struct pollfd){.fd = fd, .events = events};
            }
            listed++;
        }
    }
    return listed;
}

static int put_if(fd_set *set, bool wanted, int fd, bool holds)
{
    if (!wanted || !holds) {
        return 0;
    }
    put_in(set, fd);
    return 1;
}

static int select_by_poll(struct pollfd *fds, nfds_t listed, int count, fd_set *in, fd_set *out,
                          fd_set *except, uint64_t deadline, const sigset_t *mask)
{
    int ready = sock_poll(fds, listed, deadline, mask);
    if (ready < 0) {
        return -1;
    }
    for (nfds_t i = 0; i < listed; i++) {
        if ((fds[i].revents & POLLNVAL) != 0) {
            errno = EBADF;
            return -1;
        }
    }
    clear_all(in, count);
    clear_all(out, count);
    clear_all(except, count);
    ready = 0;
    for (nfds_t i = 0; i < listed; i++) {
        const struct pollfd *fd = &fds[i];
        ready += put_if(in, (fd->events & POLLIN) != 0, fd->fd, (fd->revents & READS) != 0);
        ready += put_if(out, (fd->events & POLLOUT) != 0, fd->fd, (fd->revents & WRITES) != 0);
        ready += put_if(except, (fd->events & POLLPRI) != 0, fd->fd, (fd->revents & EXCEPTS) != 0);
    }
    return ready;
}

int sock_select(int count, fd_set *in, fd_set *out, fd_set *except, uint64_t deadline, const sigset_t *mask)
{
    struct pollfd few[FEW_SELECTED];
    nfds_t listed = list_selected(NULL, count, in, out, except);
    struct pollfd *fds = listed <= FEW_SELECTED ? few : vipl_alloc(listed * sizeof(*fds));
    if (fds == NULL) {
        errno = ENOMEM;
        return -1;
    }
    list_selected(fds, count, in, out, except);
    int ready = select_by_poll(fds, listed, count, in, out, except, deadline, mask);
    if (fds != few) {
        int error = errno;
        vipl_free(fds);
        errno = error;
    }
    return ready;
}
