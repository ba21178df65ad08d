/* SPDX-License-Identifier: MIT */
/* Progress, sleeping, keepalive. The device's lock is held unless it says otherwise. */
#ifndef VIPL_TCP_LOOP_H
#define VIPL_TCP_LOOP_H

#include "backends/tcp/conn.h"

int vipl_tcp_loop_open(struct tcp_nic *nic);
void vipl_tcp_loop_close(struct tcp_nic *nic); /* every handle has been closed */
/* The backend's operations of these names; the lock is not held. */
void vipl_tcp_poll(struct vipl_be_nic *be);
/* The same where it takes no more than to receive from the one connection (poll_filter.h). */
bool vipl_tcp_poll_fast(struct vipl_poll_filter *filter);
void vipl_tcp_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint);
void vipl_tcp_changed(struct tcp_nic *nic); /* the loop has something new to watch or to wait for */
/* Lets the lock go, and wakes a sleeping thread that may have to wake sooner than it thinks. */
void vipl_tcp_unlock(struct tcp_nic *nic);
/* What a burst has left to be done, if anything. The lock is not held. */
void vipl_tcp_flush_deferred(struct vipl_be_nic *be);
uint32_t vipl_tcp_poll_epoch(struct vipl_be_nic *be);
/* A post or a read response waits; the thread that polls next goes on with it. Any lock but tx_pending_lock and
 * a sending lock. */
void vipl_tcp_set_tx_pending(struct tcp_conn *conn);
/* A burst waits for the next look, or for the service thread. False: that cannot come. Locks as above. */
bool vipl_tcp_request_flush(struct tcp_conn *conn);

#endif
