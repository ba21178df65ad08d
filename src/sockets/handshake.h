/* SPDX-License-Identifier: MIT */
/* What handshake.c and await.c have between them. */
#ifndef VIPL_SOCKETS_HANDSHAKE_H
#define VIPL_SOCKETS_HANDSHAKE_H

#include "sockets/conn.h"

enum { SOCK_LOOKED_AT = 32 }; /* connections that a thread brings forward beside its own, at most */

/* Returns true if no handshake is under way in that state. */
static inline bool sock_state_is_over(enum sock_state state)
{
    return state == SOCK_PLAIN || state == SOCK_LISTENING || state >= SOCK_MOVED;
}

/* Makes the next step of a handshake, if it can be made. Returns true if the state has changed. The
 * lock is held. */
bool sock_handshake_step_locked(struct sock_conn *conn);
/* Calls `each` for the connections whose handshake has begun, at most SOCK_LOOKED_AT, which may end
 * it meanwhile. No lock is held. */
void sock_handshakes_each(void (*each)(struct sock_conn *conn, void *arg), void *arg);

#endif
