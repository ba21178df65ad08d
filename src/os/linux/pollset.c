/* SPDX-License-Identifier: MIT */
/* Poll sets are epoll descriptors. */
#include <errno.h>
#include <sys/epoll.h>

#include "os/os.h"

int vipl_pollset_open(struct vipl_pollset *set)
{
    vipl_fd_begin();
    set->fd = epoll_create1(EPOLL_CLOEXEC);
    int error = set->fd < 0 ? errno : 0;
    vipl_fd_own(set->fd);
    vipl_fd_end();
    return error;
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
