/* SPDX-License-Identifier: MIT */
/* Wakers are eventfds, poll sets are epoll descriptors. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/os.h"

int vipl_waker_open(struct vipl_waker *waker)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        return errno;
    }
    waker->fd = fd;
    waker->write_fd = fd;
    waker->generation = vipl_fork_generation();
    return 0;
}

void vipl_waker_close(struct vipl_waker *waker)
{
    close(waker->fd);
}

void vipl_waker_signal(struct vipl_waker *waker)
{
    int saved = errno;
    int cancel = vipl_cancel_off();
    uint64_t one = 1;
    ssize_t n = write(waker->write_fd, &one, sizeof(one)); /* EAGAIN: already signalled 2^64-2 times */
    (void)n;
    vipl_cancel_restore(cancel);
    errno = saved;
}

void vipl_waker_reset(struct vipl_waker *waker)
{
    uint64_t count;
    ssize_t n = read(waker->fd, &count, sizeof(count)); /* EAGAIN: was not signalled */
    (void)n;
}

int vipl_pollset_open(struct vipl_pollset *set)
{
    set->fd = epoll_create1(EPOLL_CLOEXEC);
    return set->fd < 0 ? errno : 0;
}

void vipl_pollset_close(struct vipl_pollset *set)
{
    vipl_fd_close(set->fd);
    set->fd = -1;
}

int vipl_pollset_add(struct vipl_pollset *set, int fd, void *tag)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data = {.ptr = tag}};
    return epoll_ctl(set->fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

void vipl_pollset_remove(struct vipl_pollset *set, int fd)
{
    epoll_ctl(set->fd, EPOLL_CTL_DEL, fd, NULL);
}

unsigned vipl_pollset_ready(struct vipl_pollset *set, struct vipl_ready *out, unsigned max)
{
    struct epoll_event events[32];
    int n = epoll_wait(set->fd, events, max < 32 ? (int)max : 32, 0);
    for (int i = 0; i < n; i++) {
        out[i].tag = events[i].data.ptr;
        out[i].hangup = (events[i].events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0;
    }
    return n < 0 ? 0 : (unsigned)n;
}
