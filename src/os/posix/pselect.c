/* SPDX-License-Identifier: MIT */
/*
 * ppoll() where the system has none: pselect() sleeps under the mask until a descriptor is ready,
 * and poll() tells which. poll() alone, behind a change of the mask, would sleep on if a signal
 * handler ran between the two.
 *
 * What pselect() does not know: a descriptor that is watched for nothing but its end does not end a
 * sleep.
 */
#ifdef __APPLE__
#define _DARWIN_UNLIMITED_SELECT /* numbers of 1024 and above */
#endif
#include <errno.h>
#include <string.h>
#include <sys/select.h>
#include <sys/types.h>

#include "os/os.h"
#include "os/posix/ppoll.h"

enum { WORD_BITS = NFDBITS, FEW_WORDS = 1024 / WORD_BITS, READ = 0, WRITE, EXCEPT, SETS };

static int highest_of(const struct pollfd *set, nfds_t count)
{
    int highest = -1;
    for (nfds_t i = 0; i < count; i++) {
        highest = set[i].fd > highest ? set[i].fd : highest;
    }
    return highest;
}

static void add(fd_mask *words, int fd)
{
    words[fd / WORD_BITS] |= (fd_mask)(1UL << ((unsigned)fd % WORD_BITS));
}

/* Fills SETS sets of `words` words each, one behind the other. */
static void fill(fd_mask *sets, size_t words, const struct pollfd *set, nfds_t count)
{
    memset(sets, 0, SETS * words * sizeof(*sets));
    for (nfds_t i = 0; i < count; i++) {
        int fd = set[i].fd;
        if (fd >= 0 && (set[i].events & POLLIN) != 0) {
            add(sets + READ * words, fd);
        }
        if (fd >= 0 && (set[i].events & POLLOUT) != 0) {
            add(sets + WRITE * words, fd);
        }
        if (fd >= 0 && (set[i].events & POLLPRI) != 0) {
            add(sets + EXCEPT * words, fd);
        }
    }
}

/* pselect() of the descriptors of a set. */
static int sleep_on(const struct pollfd *set, nfds_t count, const struct timespec *timeout, const void *mask)
{
    fd_mask few[SETS * FEW_WORDS];
    int highest = highest_of(set, count);
    size_t words = (size_t)(highest + WORD_BITS) / WORD_BITS;
    fd_mask *sets = words <= FEW_WORDS ? few : vipl_alloc(SETS * words * sizeof(*sets));
    if (sets == NULL) {
        errno = ENOMEM;
        return -1;
    }
    fill(sets, words, set, count);
    int ready = pselect(highest + 1, (fd_set *)(void *)(sets + READ * words),
                        (fd_set *)(void *)(sets + WRITE * words), (fd_set *)(void *)(sets + EXCEPT * words),
                        timeout, mask);
    if (sets != few) {
        int saved = errno;
        vipl_free(sets);
        errno = saved;
    }
    return ready;
}

int vipl_ppoll(struct pollfd *set, nfds_t count, const struct timespec *timeout, const void *mask)
{
    const uint64_t second = 1000000000;
    uint64_t start = vipl_now_ns();
    uint64_t whole = timeout == NULL ? 0 : (uint64_t)timeout->tv_sec * second + (uint64_t)timeout->tv_nsec;
    int ready = poll(set, count, 0);
    while (ready == 0) { /* also where another thread has taken what was there */
        uint64_t over = vipl_now_ns() - start;
        uint64_t ns = over < whole ? whole - over : 0;
        const struct timespec left = {.tv_sec = (time_t)(ns / second), .tv_nsec = (long)(ns % second)};
        int woken = sleep_on(set, count, timeout == NULL ? NULL : &left, mask);
        if (woken == 0 || (woken < 0 && errno != EBADF)) { /* EBADF: poll() says which is not open */
            return woken;
        }
        ready = poll(set, count, 0);
    }
    return ready;
}
