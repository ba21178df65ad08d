/* SPDX-License-Identifier: MIT */
/* What the rest of the backend uses of the part that talks to other processes. */
#ifndef VIPL_LOOPBACK_REMOTE_H
#define VIPL_LOOPBACK_REMOTE_H

#include "backends/loopback/loopback.h"

/* --- connecting: the registry's lock is held --- */

VIP_RETURN vipl_lo_remote_listen(struct vipl_be_nic *be, const struct vipl_address *local);
void vipl_lo_remote_unlisten(struct vipl_be_nic *be, const struct vipl_address *local);
/* Nobody waits for that any more: those who are queued here are told so. */
void vipl_lo_calls_idle(struct vipl_be_nic *be, const struct vipl_address *local);
VIP_RETURN vipl_lo_walk_begin(struct lo_request *request);
void vipl_lo_walk_end(struct lo_request *request); /* harmless without a walk */
/* Takes the request, which is held, back from other processes. False: it stays there, or has ended. */
bool vipl_lo_walk_leave(struct lo_request *request);
/* Keeps every program from taking the request, until it is let go. False: one of another process has it, and says so
 * soon. Without a walk there is nobody to keep from it. */
bool vipl_lo_walk_hold(const struct lo_request *request);
void vipl_lo_walk_let_go(const struct lo_request *request);
/* It is before a listener of another process, where somebody waits for it or has it. */
bool vipl_lo_walk_is_over(const struct lo_request *request);
/* A listener of another process is there, whether or not it answers. */
bool vipl_lo_walk_met_listener(const struct lo_request *request);
bool vipl_lo_call_is_open(const struct lo_request *request); /* it answered a call, and is connected */
bool vipl_lo_call_taken(struct lo_call *call);
VIP_RETURN vipl_lo_call_accept(struct vipl_be_nic *be, struct lo_call *call, struct vipl_vi *vi);
void vipl_lo_call_reject(struct lo_call *call);

/* --- progress --- */

void vipl_lo_remote_poll(struct vipl_be_nic *be);
void vipl_lo_remote_look(struct vipl_be_nic *be); /* at the sockets, now */
void vipl_lo_remote_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint);
void vipl_lo_remote_finish_wait(struct vipl_be_nic *be, const struct vipl_poll_hint *hint);
void vipl_lo_remote_close(struct vipl_be_nic *be);

#endif
