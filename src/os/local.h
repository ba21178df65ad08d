/* SPDX-License-Identifier: MIT */
/* Messages between processes of this host, and who has sent them. */
#ifndef VIPL_OS_LOCAL_H
#define VIPL_OS_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- local rendezvous: sockets in a name space of this host, with any bytes as a name --------- */

/* Takes the name for this process. *lock is what vipl_local_unlisten() takes; -1 where the system
 * frees a name with its socket. EADDRINUSE: another socket has the name. */
int vipl_local_listen(const void *name, size_t length, int *fd, int *lock);
/* Closes the listener, and frees its name. */
void vipl_local_unlisten(const void *name, size_t length, int fd, int lock);
/* Makes two connected ends without a name; both are -1 on failure. */
int vipl_local_pair(int fds[2]);
/* Replaces another descriptor by an end of a pair. The number is never free in between. */
int vipl_local_replace(int fd, int *by);
/* ECONNREFUSED: there is no such name; EAGAIN: the listener's queue of callers is full. *fd is -1
 * before the first call. After a failure it is a socket that the next call uses or the caller
 * closes, or -1. */
int vipl_local_connect(const void *name, size_t length, int *fd);
int vipl_local_accept(int listener, int *fd);
/* The process and user at the other end, as the system tells them. */
int vipl_local_peer(int fd, int *pid, uint32_t *user);
uint32_t vipl_local_user(void); /* the effective user of this process */
/* Sends one message, all of it or nothing, with duplicates of `pass_fds`. Never blocks. EAGAIN:
 * there is no room. On Windows a message has at most 1024 bytes, what goes along is shared memory,
 * and an end passes 16 of these at most (EMFILE), which do not arrive if it is closed before they
 * are received. */
int vipl_local_send(int fd, const void *bytes, size_t length, const int *pass_fds, unsigned fd_count);
/* Receives one message of at most `size` bytes; *length is 0 at the end of the stream. fds[] gets
 * up to two descriptors, and -1 where none came. Never blocks. EAGAIN: there is no message. */
int vipl_local_receive(int fd, void *bytes, size_t size, size_t *length, int fds[2]);
bool vipl_local_has_hung_up(int fd); /* whether every process has closed the other end */
/* The sender of a message, as the system saw it when the message was sent. */
struct vipl_sender {
    int pid; /* 0: not known */
    uint32_t user;
    uint32_t group;
};
/* Has the system add the sender to every message that is sent to this socket from now on. */
int vipl_local_name_senders(int fd);
int vipl_local_receive_from(int fd, void *bytes, size_t size, size_t *length, int fds[2],
                            struct vipl_sender *sender);
/* The users, groups and capabilities of this process compared with those of another process. */
enum vipl_rights {
    VIPL_RIGHTS_SAME,
    /* the same users and groups, and fewer capabilities than the other process */
    VIPL_RIGHTS_FEWER,
    /* other users or groups, or a capability that the other process lacks; or that process has
     * ended */
    VIPL_RIGHTS_OTHER,
    /* the system does not tell: there is no /proc, or /proc is that of another name space */
    VIPL_RIGHTS_UNKNOWN
};
enum vipl_rights vipl_compare_rights(int pid);
/* Whether the sender's user and group are the real ones of this process. */
bool vipl_is_own_identity(const struct vipl_sender *sender);
/* Gives this process, with all its threads, the users and groups of another process. It loses
 * capabilities as the system takes them away at such a change. On failure it may have some of the
 * groups, and none of the users. ESRCH: the other process has ended; `socket`, which that process
 * has the other end of, tells so even if its number has been given to a new process. */
int vipl_take_rights(int pid, int socket);

#endif
