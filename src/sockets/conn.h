/* SPDX-License-Identifier: MIT */
/*
 * A TCP connection of the program that is moved to a stream over a VI, or may yet be. conn.c has
 * its states and their changes; a connection that stays with TCP for good leaves the table.
 *
 *     listen():  LISTENING
 *     connect(): CONNECTING -> HELLO_SENT -> JOINING -> COMMITTING -> MOVED
 *     accept(), or inherited from the program that called exec():
 *                UNKNOWN -> JOINING -> COMMITTING -> MOVED
 *     any but MOVED -> PLAIN; any -> BROKEN; MOVED, in a forked child: FOREIGN
 *
 * The handshake goes over the TCP connection itself (hello.h). Nothing of it blocks: a thread that
 * calls for the connection brings the handshake forward as far as it goes by sock_conn_advance(),
 * and a thread of the library does so for connections whose program does something else meanwhile
 * (advancer.c). The kernel's socket stays open under the program's descriptor, idle.
 *
 * Lock order: a connection's lock (VIPL_RANK_SOCK_CONN) comes before a stream's.
 */
#ifndef VIPL_SOCKETS_CONN_H
#define VIPL_SOCKETS_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "os/os.h"
#include "sockets/hello.h"
#include "sockets/table.h"
#include "stream/stream.h"

enum sock_state {
    SOCK_PLAIN,      /* the kernel's, for good: the caller makes the kernel's call */
    SOCK_LISTENING,  /* a listening socket with a mark (mark.h); else the kernel's */
    SOCK_CONNECTING, /* connect() has returned EINPROGRESS */
    SOCK_UNKNOWN,    /* the peer may send HELLO: this process decides at its first call */
    SOCK_HELLO_SENT, /* the server has not replied yet */
    SOCK_JOINING,    /* both ends know each other's address: the VIs are being connected */
    SOCK_COMMITTING, /* this end has said what it can do, and waits for the peer's word */
    SOCK_MOVED,      /* the stream has all bytes; the kernel's socket has none */
    SOCK_BROKEN,     /* lost in the handshake: calls fail with `error` once, then as at the end */
    SOCK_FOREIGN     /* moved by the parent before the fork: calls fail with ECONNRESET */
};

/* Called when the state of a connection changes, and when its last descriptor is closed
 * (sock_conn_is_closed()), with the connection's lock held: it calls nothing of the connection. */
struct sock_hook {
    struct vipl_list link; /* the connection's list; guarded by the connection's lock */
    void (*changed)(struct sock_hook *hook);
};

struct sock_early; /* bytes that the program wrote before the outcome was known (early.c) */

struct sock_conn {
    struct sock_file file;
    struct vipl_list pooled;
    struct vipl_mutex lock;     /* rank SOCK_CONN */
    uint32_t state;             /* atomic: enum sock_state; changes under the lock */
    int kernel;                 /* constant: a descriptor of the kernel's socket; see sock_conn_fd() */
    struct vipl_stream *stream; /* constant once the state is MOVED, until the last reference is put */
    /* The program's flags and options; atomic. */
    uint32_t nonblocking;
    uint32_t receive_ms; /* SO_RCVTIMEO; 0: none */
    uint32_t send_ms;    /* SO_SNDTIMEO; 0: none */
    uint32_t shut;       /* SOCK_SHUT_...: shutdown() has been called */
    uint32_t linger;     /* 1: SO_LINGER with 0 seconds: close() aborts */
    uint32_t told;       /* 1: the error of a broken connection has been reported: SO_ERROR, or a call */
    /* The handshake; guarded by the lock. */
    struct vipl_list hooks;
    int error; /* of BROKEN; constant once the state is that */
};
enum { SOCK_SHUT_READ = 1, SOCK_SHUT_WRITE = 2 };

/* What a connection is now, and what a thread that waits for it waits for. */
struct sock_now {
    enum sock_state state;
    /* poll() bits that hold for the program now: POLLIN, POLLOUT, POLLRDHUP, POLLHUP, POLLERR with
     * their NORM twins. Not of PLAIN and LISTENING, which the kernel is to be asked for. */
    short ready;
    /* poll() bits of the kernel's socket that sock_conn_advance() waits for during the handshake,
     * given what the program waits for; 0: none */
    short kernel;
    /* sock_conn_advance() is to be called again after this number of milliseconds; -1: no need */
    int again_ms;
};

/* Brings the handshake of a connection forward as far as it goes without blocking, and returns what
 * the connection is now. `wanted`: the poll() bits that the program waits for. A MOVED connection
 * takes what has come for its stream; the thread waits by vipl_stream_wait(), or a watch on
 * conn->stream and vipl_stream_nic_wait(). */
struct sock_now sock_conn_advance(struct sock_conn *conn, short wanted);
static inline enum sock_state sock_conn_state(const struct sock_conn *conn)
{
    return (enum sock_state)vipl_load_acquire(&conn->state); /* pairs with change() in conn.c */
}

/* Looks up a connection. The caller owns a reference. NULL: the descriptor is the kernel's. */
static inline struct sock_conn *sock_conn_of(int fd)
{
    return (struct sock_conn *)(void *)sock_file_of_kind(fd, &sock_conn_kind);
}
static inline void sock_conn_get(struct sock_conn *conn)
{
    sock_file_get(&conn->file);
}
static inline void sock_conn_put(struct sock_conn *conn)
{
    sock_file_put(&conn->file);
}
/* Returns true once the program has closed the last descriptor. */
bool sock_conn_is_closed(struct sock_conn *conn);

void sock_conn_hook(struct sock_conn *conn, struct sock_hook *hook);
void sock_conn_unhook(struct sock_conn *conn, struct sock_hook *hook);

/* The device of this process's streams, opened when it is first needed; NULL: not (yet) open, or it
 * cannot be opened. A thread that waits for several moved connections waits for it. */
struct vipl_stream_nic *sock_device(void);

#endif
