/* SPDX-License-Identifier: MIT */
/*
 * A TCP connection of the program that is moved to a stream over a VI, or may yet be, or was looked
 * at and stays with TCP for good.
 *
 *     listen():  LISTENING
 *     connect(): CONNECTING -> HELLO_SENT -> JOINING -> COMMITTING -> MOVED
 *     accept(), or inherited from the program that called exec():
 *                UNKNOWN -> JOINING -> COMMITTING -> MOVED
 *     any but MOVED -> STRIPPING or PLAIN; any -> BROKEN; MOVED, in a forked child: FOREIGN
 *
 * The handshake goes over the TCP connection itself (hello.h); handshake.c has its steps. Nothing
 * of it blocks: each call for the connection, and each wait for it, brings the handshake forward as
 * far as it goes. No byte of the program travels before the outcome: a client that wants to write
 * waits for the outcome a limited time, and then tells the server that the connection stays with
 * TCP. The kernel's socket stays open under the program's descriptor, idle once the connection is
 * moved.
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
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "sockets/device.h"
#include "sockets/hello.h"
#include "sockets/mark.h"
#include "sockets/stats.h"
#include "sockets/table.h"
#include "stream/stream.h"

enum sock_state {
    SOCK_PLAIN,      /* the kernel's, for good: the caller makes the kernel's call */
    SOCK_LISTENING,  /* a listening socket with a mark (mark.h); else the kernel's */
    SOCK_CONNECTING, /* connect() has returned EINPROGRESS */
    SOCK_UNKNOWN,    /* the peer may send HELLO: this process decides at its first call */
    SOCK_HELLO_SENT, /* the server has not replied yet */
    SOCK_JOINING,    /* both ends know each other's address: the VIs are being connected */
    SOCK_COMMITTING, /* this end has said that its VI is connected, and waits for the peer's word */
    SOCK_STRIPPING,  /* the kernel's, but bytes of the handshake may come before the program's */
    SOCK_MOVED,      /* the stream has all bytes; the kernel's socket has none */
    /* Lost in the handshake: calls fail with `error` once, then as at the end. 0: the server has
     * closed before it read anything, and calls find the end. */
    SOCK_BROKEN,
    SOCK_FOREIGN /* moved by the parent before the fork: calls fail with ECONNRESET */
};

/* Called when the state of a connection changes, and when its last descriptor is closed, with the
 * connection's lock held: it calls nothing of the connection. */
struct sock_hook {
    struct vipl_list link; /* the connection's list; guarded by the connection's lock */
    void (*changed)(struct sock_hook *hook);
};

struct sock_responder; /* responder.h */

struct sock_conn {
    struct sock_file file;
    struct vipl_list link;      /* the connections in a handshake (pending.c); in the pool: free */
    struct vipl_mutex lock;     /* rank SOCK_CONN */
    uint32_t state;             /* atomic: enum sock_state; changes under the lock */
    struct vipl_stream *stream; /* constant once the state is MOVED, until the last reference is put */
    struct sock_mark *mark;     /* of a LISTENING socket; constant, until the last reference is put */
    /* Of the device that the connection is moved to; constant once it is in the table. */
    const char *device_name;
    struct sock_address place; /* that this end connects to; constant likewise */
    bool is_judged;            /* how short it was says what becomes of later ones; constant likewise */
    bool is_remote;            /* the other end is on another host; constant likewise */
    /* The program's flags and options; atomic. */
    uint32_t nonblocking;
    uint32_t receive_ms; /* SO_RCVTIMEO; 0: none */
    uint32_t send_ms;    /* SO_SNDTIMEO; 0: none */
    uint32_t shut;       /* SOCK_SHUT_...: shutdown() has been called */
    uint32_t corked;     /* 1: TCP_CORK */
    uint32_t resets;     /* 1: SO_LINGER with 0 seconds: close() aborts */
    uint32_t owes;       /* 1: STRIPPING: the server has ended, and gets T before the first byte */
    uint32_t told;       /* 1: the error of a lost connection has been reported, by a call or SO_ERROR */
    /* The rest is guarded by the lock. */
    struct vipl_list hooks;
    int kernel; /* one of the program's descriptors of the kernel's socket; -1: all are closed */
    int error;  /* of BROKEN; constant once the state is that */
    struct vipl_stream_nic *device; /* whose address this end has told the peer */
    bool is_client;                 /* constant once the connection is in the table */
    bool is_own;                    /* a client's, whose listener is in this process, until that was helped */
    bool is_held;                   /* the peer's message stays: it is not whole, or has to wait */
    bool is_asking;                 /* CONNECTING: connected, and the other host has not answered yet */
    bool joins;          /* has a place among those whose VIs are being connected; written under both
                          * this lock and the list's */
    bool strips_message; /* STRIPPING: a message of the peer may come first */
    uint8_t strips;      /* STRIPPING: bytes of the handshake that come first, or after the message */
    uint8_t peer_commit; /* the peer's COMMIT byte; 0: it has not come */
    uint64_t since;      /* when HELLO was sent, or the connection accepted */
    uint64_t patience;   /* how long a write waits for the outcome, from `since` on; nanoseconds */
    uint64_t join_by;    /* JOINING: when the connection stays with TCP */
    uint8_t nonce[SOCK_NONCE_BYTES];
    uint8_t peer_nonce[SOCK_NONCE_BYTES];
    struct sock_hello peer;
    struct sock_responder *responder; /* of a LISTENING socket that other hosts may ask for; or NULL */
};
enum { SOCK_SHUT_READ = 1, SOCK_SHUT_WRITE = 2 };

/* Returns a connection with one reference and no descriptor; NULL: no memory. */
struct sock_conn *sock_conn_new(enum sock_state state, int kernel, bool nonblocking);
/* Nothing refers to the connection any more (conn_file.c). */
void sock_conn_free(struct sock_conn *conn);

static inline enum sock_state sock_conn_state(const struct sock_conn *conn)
{
    return (enum sock_state)vipl_load_acquire(&conn->state); /* pairs with sock_conn_change_locked() */
}
/* Whether what a descriptor stands for (sock_file_peek()) is a connection, or a listener, whose
 * calls and waits are the kernel's. It stays so until it is closed, and a program that closes a
 * descriptor beside another call for it cannot tell which was first: no reference is needed. */
static inline bool sock_file_is_kernels(const struct sock_file *file)
{
    if (file->kind != &sock_conn_kind) {
        return false;
    }
    enum sock_state state = sock_conn_state((const struct sock_conn *)(const void *)file);
    return state == SOCK_PLAIN || state == SOCK_LISTENING;
}
/* Looks up a connection. The caller owns a reference. NULL: the descriptor is the kernel's. */
static inline struct sock_conn *sock_conn_of(int fd)
{
    return (struct sock_conn *)(void *)sock_file_of_kind(fd, &sock_conn_kind);
}
static inline void sock_conn_put(struct sock_conn *conn)
{
    sock_file_put(&conn->file);
}

/* Sets the state, and calls the hooks. The lock is held. */
void sock_conn_change_locked(struct sock_conn *conn, enum sock_state state);
/* Calls the hooks: what the connection says to poll() has changed. */
void sock_conn_touch(struct sock_conn *conn);
void sock_conn_hook(struct sock_conn *conn, struct sock_hook *hook);
void sock_conn_unhook(struct sock_conn *conn, struct sock_hook *hook);
/* Whether there is nothing to read, although bytes of the handshake may come: the program has
 * called shutdown() of reading, or the server has ended. */
static inline bool sock_conn_is_stopped(const struct sock_conn *conn)
{
    return (vipl_load_relaxed(&conn->shut) & SOCK_SHUT_READ) != 0 || vipl_load_relaxed(&conn->owes) != 0;
}
/* The program is about to send: the server gets the byte that it is owed. */
void sock_handshake_pay(struct sock_conn *conn);

/* In a forked child, which has no other thread: a moved connection is the parent's. */
void sock_conn_forked(struct sock_conn *conn);
void sock_conns_forked(void); /* no thread uses the pool */

/* The poll() bits that hold now for a connection that is MOVED, BROKEN or FOREIGN. Takes what has
 * come for the stream. */
short sock_conn_ready(struct sock_conn *conn);
/* The error of a lost connection, which is reported once; 0: there is none. */
int sock_conn_take_error(struct sock_conn *conn);

/* --- the handshake: advance.c, await.c, forward.c, handshake.c and pending.c --- */

/* What a connection is now, and what a thread that waits for it waits for. */
struct sock_now {
    enum sock_state state;
    /* The poll() bits that hold for the program now. Not of PLAIN and LISTENING, which the kernel
     * is to be asked for. */
    short ready;
    /* The poll() bits of the kernel's socket that the handshake, or the program, waits for: the
     * thread calls sock_conn_advance() again when one of them holds; 0: none. */
    short kernel;
    /* sock_conn_advance() is to be called again after this number of milliseconds; -1: no need. */
    int again_ms;
    /* The device that connects the VI: the thread waits for it by sock_sleep(); NULL: none. */
    struct vipl_stream_nic *nic;
};

/* Brings the handshake of a connection forward as far as it goes without blocking, and returns what
 * the connection is now. `wanted`: the poll() bits that the program waits for. A thread that waits
 * for a MOVED connection waits by vipl_stream_wait(), or by a watch on conn->stream and
 * vipl_stream_nic_wait(). */
struct sock_now sock_conn_advance(struct sock_conn *conn, short wanted);
/* Waits until the outcome of the handshake is known, for a call that `wanted` (POLLIN, POLLOUT)
 * stands for, and returns the state. A call that must not block gets EAGAIN if the outcome is not
 * known yet. Returns 0, EAGAIN, or EINTR. */
int sock_conn_await(struct sock_conn *conn, short wanted, bool blocks, uint64_t deadline);
/* Has the connection stay with TCP: the program does what only TCP can do, or closes. Does nothing
 * if the connection is moved. Bytes of the handshake may remain: STRIPPING. */
void sock_conn_give_up(struct sock_conn *conn, enum sock_reason reason);
/* An end that has said that its VI is connected cannot take that back: waits a while for the peer's
 * word. The peer may be an end in this process that no other thread brings forward. No lock is
 * held. */
void sock_handshake_finish(struct sock_conn *conn);
/* Ends the handshake of a connection whose last descriptor is about to be closed. The lock is
 * held. */
void sock_handshake_close_locked(struct sock_conn *conn);
/* Begins, for a client's connection that connect() has made or begun to make. `is_own_process`: the
 * listener is in this process. */
void sock_handshake_begin(struct sock_conn *conn, bool is_own_process);
/* To be called by a thread that has waited for a device: brings those handshakes forward whose VIs
 * are connected, or could not be, whichever thread waits for the connection. No lock is held. */
void sock_handshakes_look(void);
/* Around a fork: the handshakes of this process end, so that only one process has the rest of
 * each. */
void sock_handshake_before_fork(void);
void sock_handshake_forked(void);

#endif
