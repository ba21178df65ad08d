/* SPDX-License-Identifier: MIT */
/* Progress, sleeping, keepalive. The device's lock is held unless a comment says otherwise. */
#ifndef VIPL_TCP_LOOP_H
#define VIPL_TCP_LOOP_H

#include "backends/tcp/conn.h"

int vipl_tcp_loop_open(struct tcp_nic *nic);
void vipl_tcp_loop_close(struct tcp_nic *nic); /* every watched socket has been closed */
/* The backend's operations poll and prepare_wait; no lock is held. */
void vipl_tcp_poll(struct vipl_be_nic *be);
/* The poll function of the poll filter: receives from the only connection. Returns false if
 * vipl_tcp_poll() must be called instead. */
bool vipl_tcp_poll_fast(struct vipl_poll_filter *filter);
void vipl_tcp_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint);
/* the loop has something new to watch, or a new timer */
void vipl_tcp_changed(struct tcp_nic *nic);
/* Releases the device's lock. Wakes a sleeping thread that may have to wake earlier than
 * it has planned. */
void vipl_tcp_unlock(struct tcp_nic *nic);
/* The backend's operations flush_deferred and poll_epoch; no lock is held. */
void vipl_tcp_flush_deferred(struct vipl_be_nic *be);
uint32_t vipl_tcp_poll_epoch(struct vipl_be_nic *be);
/* A post or a read response waits: the next thread that polls goes on with it. Any lock may be held
 * but tx_pending_lock and a sending lock. */
void vipl_tcp_set_tx_pending(struct tcp_conn *conn);
/* The output buffer waits for the next poll, or for the service thread. Returns false if there can
 * be no service thread. Any lock may be held but tx_pending_lock and a sending lock. */
bool vipl_tcp_request_flush(struct tcp_conn *conn);

#endif
