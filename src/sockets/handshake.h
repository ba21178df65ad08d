/* SPDX-License-Identifier: MIT */
/* What advance.c, await.c, forward.c, handshake.c and pending.c have between them. */
#ifndef VIPL_SOCKETS_HANDSHAKE_H
#define VIPL_SOCKETS_HANDSHAKE_H

#include "sockets/conn.h"

enum {
    SOCK_LOOKED_AT = 32, /* connections that a thread brings forward beside its own, at most */
    /* A client's write waits so long for the outcome, if this process, perhaps this thread, has the
     * other end too. */
    SOCK_OWN_PATIENCE_MS = 20,
    SOCK_COMMIT_MS = 100 /* an end that has said V waits so long for the peer's byte */
};

/* Returns true if no handshake is under way in that state. */
static inline bool sock_state_is_over(enum sock_state state)
{
    return state == SOCK_PLAIN || state == SOCK_LISTENING || state >= SOCK_MOVED;
}

/* The milliseconds that the two ends wait for the VIs to be connected, once both know that they
 * want it, and that either waits for a place among those that are. */
VIP_ULONG sock_join_ms(void);

/* Makes the next step of a handshake, if it can be made. Returns true if the state has changed. The
 * lock is held. */
bool sock_handshake_step_locked(struct sock_conn *conn);
/* This end does not want to go on: the connection stays with TCP, unless both ends have said that
 * they want it moved. The lock is held. */
void sock_handshake_give_up_locked(struct sock_conn *conn, enum sock_reason reason);

/* forward.c: decides for the connections that this process has accepted and not used for a while.
 * No lock is held. */
void sock_handshakes_decide(void);

/* --- pending.c: the connections whose handshake has begun, without the servers' that have not
 * decided; no lock of a connection's list is held --- */

enum { SOCK_MOST_JOINING = 256 }; /* VIs of this process that are being connected at once, at most */

void sock_pending_enter(struct sock_conn *conn);
/* The handshake is over, or its VI is not connected. */
void sock_pending_leave(struct sock_conn *conn);
/* Enters a connection whose VI is to be connected: it has a place from now on. Returns false if
 * `most` VIs are being connected. */
bool sock_pending_join(struct sock_conn *conn, uint32_t most);
/* Writes the connections whose VIs are being connected, with references. Returns their number. */
unsigned sock_pending_joining(struct sock_conn *conns[SOCK_MOST_JOINING]);
/* Calls `each` for the connections whose handshake has begun, at most SOCK_LOOKED_AT, which may end
 * it meanwhile, and the next time for the next ones. No lock is held. A thread that waits for one
 * brings them all forward, because it may be the only one of the process. */
void sock_handshakes_each(void (*each)(struct sock_conn *conn, void *arg), void *arg);
/* The same for all that have begun when it is called. */
void sock_handshakes_all(void (*each)(struct sock_conn *conn, void *arg), void *arg);

#endif
