/* SPDX-License-Identifier: MIT */
/* The waiting calls, as interpose_wait.c makes them once the caller is inside the library. */
#ifndef VIPL_SOCKETS_WAIT_H
#define VIPL_SOCKETS_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>

struct sock_conn;

/* --- poll and select (wait.c, select.c) ------------------------------------------------------- */

/* Returns true if the descriptor is a set, or a connection that is not the kernel's: the kernel's
 * call does not do. */
bool sock_waits_here(int fd);
/* Returns true if that is so of one of the descriptors. */
bool sock_poll_is_own(struct pollfd *fds, nfds_t count);
bool sock_select_is_own(int count, const fd_set *in, const fd_set *out, const fd_set *except);
/* As the kernel's calls: the result, or -1 with errno. The deadline is on the clock of
 * vipl_now_ns(). */
int sock_poll(struct pollfd *fds, nfds_t count, uint64_t deadline, const sigset_t *mask);
int sock_select(int count, fd_set *in, fd_set *out, fd_set *except, uint64_t deadline, const sigset_t *mask);

/* --- epoll (epoll.c, epoll_wait.c) ------------------------------------------------------------ */

/* The program has made a set. */
void sock_epoll_created(int fd);
int sock_epoll_ctl(int fd_of_set, int operation, int fd, struct epoll_event *event);
/* Whether the library knows the set. */
bool sock_epoll_is_known(int set);
/* `ms`: what is left until the deadline; -1: there is none. */
int sock_epoll_wait(int fd_of_set, struct epoll_event *events, int most, int ms, uint64_t deadline,
                    const sigset_t *mask);
/* Leaves what the library itself has in a set out of the kernel's events. Returns the number that
 * is left. */
int sock_epoll_strip(struct epoll_event *events, int count);

/* A descriptor that was the kernel's alone is a connection's from now on: connect() has been called
 * for a socket that may already be in epoll sets. No lock is held. */
void sock_epoll_adopt(int fd, struct sock_conn *conn);
/* The last descriptor of a connection is about to be closed: it leaves all sets. No lock is
 * held. */
void sock_epoll_forget(struct sock_conn *conn);
/* In a forked child: the sets are the parent's until they are used. */
void sock_epolls_forked(void);

#endif
