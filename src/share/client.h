/* SPDX-License-Identifier: MIT */
/* A client's line to the server: joining, calls, ready descriptors, forks. */
#ifndef VIPL_SHARE_CLIENT_H
#define VIPL_SHARE_CLIENT_H

#include "share/arena.h"

/* The arena, NULL while this process has none. */
struct vipl_arena *vipl_share_arena(void);
/* Joins the arena, which is made, and the server with it, if there is none. `fork_handlers`: the program's forks are to
 * pass shared objects on; core's own handlers are registered already. */
VIP_RETURN vipl_share_join(bool fork_handlers);
/* Makes a call and returns what it returned. `arguments`: its struct in call.h, whose results the server fills in. `restart`:
 * a signal handler that runs meanwhile does not end it. */
VIP_RETURN vipl_share_call(enum vipl_call_name name, void *object, void *arguments, bool restart);
/* The ready descriptor of a queue (recv: which), a completion queue, or a NIC handle's connection requests. NULL: there is
 * none to be had. */
struct vipl_waker *vipl_share_ready_fd(const void *handle, bool recv);
bool vipl_share_server_lives(void);
bool vipl_share_is_forking(void); /* this thread: in a handler that runs then only calls are right */
int vipl_share_lifeline(void);    /* a descriptor that is readable once the server has ended */
void vipl_share_lock(void);       /* rank SHARE; a forked child has one of its own, which is free */
void vipl_share_unlock(void);
/* Which client this process is. A child's first question waits for the server. VIPL_SHARE_CLIENTS: not a client. */
unsigned vipl_share_number(void);
bool vipl_share_holds(const void *handle); /* this process holds that VI, completion queue or NIC handle */

#endif
