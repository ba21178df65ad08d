/* SPDX-License-Identifier: MIT */
/* A client's connection to the server: joining, calls, ready descriptors, forks. The functions take
 * the locks that they need. */
#ifndef VIPL_SHARE_CLIENT_H
#define VIPL_SHARE_CLIENT_H

#include "share/arena.h"

/* The arena; NULL while this process has none. */
struct vipl_arena *vipl_share_arena(void);
/* Joins the arena. If there is none, makes it and starts the server. `fork_handlers`: forks of the
 * program pass shared objects on to the child; core's own fork handlers are registered already. */
VIP_RETURN vipl_share_join(bool fork_handlers);
/* Makes a call, and returns its result. `arguments` is the call's struct of call.h, whose results
 * the server fills in. `restart`: a signal handler that runs during the call does not end it. */
VIP_RETURN vipl_share_call(enum vipl_call_name name, void *object, void *arguments, bool restart);
/* The ready descriptor of a work queue (recv: which one), of a completion queue, or of a NIC
 * handle's connection requests. NULL: the server has none for this process. */
struct vipl_waker *vipl_share_ready_fd(const void *handle, bool recv);
bool vipl_share_server_lives(void);
/* Whether this thread is forking: a handler that runs then may only make calls. */
bool vipl_share_is_forking(void);
int vipl_share_lifeline(void); /* a descriptor that is readable once the server has ended */
void vipl_share_lock(void);    /* rank SHARE; a forked child has its own lock, which is free */
void vipl_share_unlock(void);
/* The number of this client. In a child, the first call waits for the server to send it.
 * VIPL_SHARE_CLIENTS: this process is not a client. */
unsigned vipl_share_number(void);
/* whether this process holds that VI, completion queue or NIC handle */
bool vipl_share_holds(const void *handle);

#endif
