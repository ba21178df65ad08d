/* SPDX-License-Identifier: MIT */
/* Wakers are eventfds. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/os.h"

/* Returns an errno value. */
static int open_eventfd(unsigned count, int *fd)
{
    vipl_fd_begin();
    *fd = vipl_resource_fails(EMFILE) ? -1 : eventfd(count, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = vipl_fd_adopt(fd);
    vipl_fd_end();
    return error;
}

/* Adds to the count, which wakes those that watch the eventfd. Leaves errno as it was. */
static void add_to_count(int fd, uint64_t value)
{
    int saved = errno;
    int cancel = vipl_cancel_off();
    ssize_t n = write(fd, &value, sizeof(value));
    (void)n;
    vipl_cancel_restore(cancel);
    errno = saved;
}

int vipl_waker_open(struct vipl_waker *waker)
{
    int fd;
    int error = open_eventfd(0, &fd);
    if (error != 0) {
        return error;
    }
    waker->fd = fd;
    waker->write_fd = fd;
    waker->generation = vipl_fork_generation();
    waker->cancel = NULL;
    return 0;
}

void vipl_waker_close(struct vipl_waker *waker)
{
    if (waker->generation == vipl_fork_generation()) { /* else it was closed at the fork */
        vipl_fd_close(waker->fd);
    }
}

void vipl_waker_signal(struct vipl_waker *waker)
{
    add_to_count(waker->write_fd, 1); /* EAGAIN: already signalled 2^64-2 times */
}

void vipl_waker_reset(struct vipl_waker *waker)
{
    uint64_t count;
    ssize_t n = read(waker->fd, &count, sizeof(count)); /* EAGAIN: the waker was not signalled */
    (void)n;
}

/* The count of a shared waker is 1 from the beginning, and a signal adds 0: the kernel reports each
 * write of an eventfd that is readable as another edge. A write of 0 does not block, whatever count
 * and whatever flags the other process gives the eventfd; only the kernel itself can count up to
 * the one value at which it would. */
int vipl_shared_waker_open(int *fd)
{
    return open_eventfd(1, fd);
}

bool vipl_shared_waker_is_valid(int fd)
{
    static const char eventfd_link[] = "anon_inode:[eventfd]";
    char path[32];
    char target[sizeof(eventfd_link)];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof(target));
    return length == (ssize_t)(sizeof(eventfd_link) - 1) && memcmp(target, eventfd_link, (size_t)length) == 0;
}

void vipl_shared_waker_signal(int fd)
{
    add_to_count(fd, 0);
}
