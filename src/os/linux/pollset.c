/* SPDX-License-Identifier: MIT */
/* Poll sets are epoll descriptors. */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <time.h>

#include "os/os.h"

enum { MAX_READY = 16 }; /* of one system call */

int vipl_pollset_open(struct vipl_pollset *set)
{
    vipl_fd_begin();
    set->fd = vipl_resource_fails(EMFILE) ? -1 : epoll_create1(EPOLL_CLOEXEC);
    int error = vipl_fd_adopt(&set->fd);
    vipl_fd_end();
    return error;
}

void vipl_pollset_close(struct vipl_pollset *set)
{
    vipl_fd_close(set->fd);
    set->fd = -1;
}

static int epoll_add(struct vipl_pollset *set, int fd, uint32_t events, void *tag)
{
    struct epoll_event event = {.events = events, .data = {.ptr = tag}};
    bool added = !vipl_resource_fails(ENOSPC) && epoll_ctl(set->fd, EPOLL_CTL_ADD, fd, &event) == 0;
    return added ? 0 : errno;
}

int vipl_pollset_add(struct vipl_pollset *set, int fd, void *tag)
{
    return epoll_add(set, fd, EPOLLIN | EPOLLRDHUP, tag);
}

int vipl_pollset_add_end(struct vipl_pollset *set, int fd, void *tag)
{
    return epoll_add(set, fd, 0, tag); /* EPOLLHUP is always reported */
}

int vipl_pollset_add_signals(struct vipl_pollset *set, int fd, void *tag)
{
    return epoll_add(set, fd, EPOLLIN | EPOLLET, tag);
}

void vipl_pollset_remove(struct vipl_pollset *set, int fd)
{
    epoll_ctl(set->fd, EPOLL_CTL_DEL, fd, NULL);
}

unsigned vipl_pollset_ready(struct vipl_pollset *set, struct vipl_ready *out, unsigned max)
{
    struct epoll_event events[MAX_READY];
    int n = epoll_wait(set->fd, events, max < MAX_READY ? (int)max : MAX_READY, 0);
    for (int i = 0; i < n; i++) {
        out[i].tag = events[i].data.ptr;
        out[i].hangup = (events[i].events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0;
        out[i].broken = (events[i].events & (EPOLLHUP | EPOLLERR)) != 0;
        out[i].readable = (events[i].events & EPOLLIN) != 0;
        out[i].writable = (events[i].events & EPOLLOUT) != 0;
    }
    return n < 0 ? 0 : (unsigned)n;
}

int vipl_pollset_change(struct vipl_pollset *set, int fd, void *tag, bool readable, bool writable)
{
    struct epoll_event event = {.events = (readable ? EPOLLIN | EPOLLRDHUP : 0u) | (writable ? EPOLLOUT : 0u),
                                .data = {.ptr = tag}};
    return epoll_ctl(set->fd, EPOLL_CTL_MOD, fd, &event) == 0 ? 0 : errno;
}

int vipl_pollset_watch(struct vipl_pollset *set, int fd, void *tag, bool is_new, bool readable, bool writable)
{
    struct epoll_event event = {.events =
                                    (readable ? (uint32_t)EPOLLIN : 0) | (writable ? (uint32_t)EPOLLOUT : 0),
                                .data = {.ptr = tag}};
    if (is_new && vipl_resource_fails(ENOSPC)) {
        return ENOSPC;
    }
    return epoll_ctl(set->fd, is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) == 0 ? 0 : errno;
}

void vipl_pollset_wait(struct vipl_pollset *set, uint64_t timeout_ns)
{
    const uint64_t second = 1000000000;
    struct pollfd entry = {.fd = set->fd, .events = POLLIN};
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / second % INT32_MAX),
                               .tv_nsec = (long)(timeout_ns % second)};
    (void)ppoll(&entry, 1, timeout_ns == UINT64_MAX ? NULL : &timeout, NULL);
}
