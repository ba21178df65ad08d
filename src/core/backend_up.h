/* SPDX-License-Identifier: MIT */
/*
 * The calls that a backend makes up into core. Unless a comment says otherwise, the caller holds no
 * lock, or only the backend's own lock of rank BACKEND_RX.
 */
#ifndef VIPL_CORE_BACKEND_UP_H
#define VIPL_CORE_BACKEND_UP_H

#include "core/backend.h"

/* --- Sending. --------------------------------------------------------------------------------- */

/* Completes a pending send, with VIP_STATUS error bits (0: success) and the number of bytes
 * moved. */
void vipl_up_send_done(struct vipl_vi *vi, uint32_t sequence, uint32_t status, uint32_t length);
/* A pending send that has succeeded. */
struct vipl_send_done {
    uint32_t sequence;
    uint32_t length;
};
/* Completes several pending sends of a VI without error, in posting order. */
void vipl_up_sends_done(struct vipl_vi *vi, const struct vipl_send_done *done, unsigned count);
/* The backend does not answer RDMA Reads of the peer any more (is_answering()). The caller holds no
 * lock of the VI. */
void vipl_up_answered(struct vipl_vi *vi);
/* Tells core that there may be room again for sends that got VIPL_POSTED_AGAIN. */
void vipl_up_send_resume(struct vipl_vi *vi);
/* Reads the pieces of the pending RDMA Read `sequence` from its descriptor again, and checks them.
 * False: no such read is pending, or it is not valid any more. The caller holds the VI's send lock
 * by vipl_up_send_lock(). */
bool vipl_up_read_target(struct vipl_vi *vi, uint32_t sequence, struct vipl_sg *out);
/* As vipl_up_read_target(), for the pending send `sequence`, which is not RDMA. */
bool vipl_up_pending_send(struct vipl_vi *vi, uint32_t sequence, struct vipl_send *out);
void vipl_up_send_lock(struct vipl_vi *vi);
void vipl_up_send_unlock(struct vipl_vi *vi);

/* --- Receiving. The caller holds the VI's receive lock. --------------------------------------- */

void vipl_up_recv_lock(struct vipl_vi *vi);
void vipl_up_recv_unlock(struct vipl_vi *vi);

enum vipl_claim {
    VIPL_CLAIM_OK, /* *out names where the data goes; the backend finishes the receive later */
    /* no receive is posted: core has reported it, and a reliable VI has failed */
    VIPL_CLAIM_EMPTY,
    /* the receive was too short or malformed: core has completed it with an error */
    VIPL_CLAIM_FAILED,
    VIPL_CLAIM_GONE /* the VI does not receive: the backend drops the message */
};
/* Claims the oldest posted receive for a message. `bytes` is the length of the message, or of the
 * part that has arrived: core checks the receive for that length, and lists in *out where the bytes
 * go. `out` may be NULL for a message that places nothing (RDMA Write with immediate data). Until
 * vipl_up_recv_finish() each call claims the same receive. */
enum vipl_claim vipl_up_recv_claim(struct vipl_vi *vi, size_t bytes, struct vipl_sg *out);
/* Claims the oldest receive, copies the whole message into it and completes it, if the receive is
 * one piece in the region that the queue used last. On false nothing has happened. `from` is memory
 * of this process or a ring. The call takes the receive lock itself. */
bool vipl_up_recv_take(struct vipl_vi *vi, const void *from, size_t bytes);
/* Completes the claimed receive, with VIP_STATUS error bits or 0. `rdma`: by an RDMA Write with
 * immediate data. `immediate` may be NULL. */
void vipl_up_recv_finish(struct vipl_vi *vi, uint32_t status, uint32_t length, bool rdma,
                         const uint32_t *immediate);

/* The next three are for a device that takes receives when they are posted (post_recv). They take
 * the receive lock themselves. */

/* Completes a receive that the device had, with VIP_STATUS error bits or 0. `length` is the number
 * of bytes placed; with VIP_STATUS_LENGTH_ERROR it is the length of the message, as far as known.
 * `rdma`: by an RDMA Write with immediate data. `immediate` may be NULL. After a failed receive the
 * connection of a reliable VI ends. If the backend does not have a receive of that number, core
 * ignores the call, and logs it once for each VI. */
void vipl_up_recv_done(struct vipl_vi *vi, uint32_t sequence, uint32_t status, uint32_t length, bool rdma,
                       const uint32_t *immediate);
/* Tells core that there may be room again for receives that got VIPL_POSTED_AGAIN. */
void vipl_up_recv_resume(struct vipl_vi *vi);
/* A message has found no receive: core does what VIPL_CLAIM_EMPTY describes. */
void vipl_up_recv_missing(struct vipl_vi *vi);

/* RDMA, under the receive lock. */

/* Returns true if the peer may write (or read) these bytes of this program. False has no effect. */
bool vipl_up_rdma_allows(struct vipl_vi *vi, bool write, VIP_MEM_HANDLE handle, uint64_t address,
                         uint64_t bytes);
/* As vipl_up_rdma_allows(). On false core has also reported the error, and the connection of a
 * reliable VI ends. */
bool vipl_up_rdma_allowed(struct vipl_vi *vi, bool write, VIP_MEM_HANDLE handle, uint64_t address,
                          uint64_t bytes);
/* Returns why vipl_up_rdma_allows() was false, for a transport that tells the peer. */
enum vipl_mem_fault vipl_up_rdma_fault(struct vipl_vi *vi, bool write, VIP_MEM_HANDLE handle,
                                       uint64_t address, uint64_t bytes);
/* Reports what vipl_up_rdma_allowed() reports, for an access that was allowed to memory that does
 * not exist any more. */
void vipl_up_rdma_refuse(struct vipl_vi *vi, bool write);

/* --- Connections. ----------------------------------------------------------------------------- */

/* Returns true if the NIC handle takes requests for the discriminator. Core keeps the only list of
 * listeners. */
bool vipl_up_listens(struct vipl_nic *nic, const struct vipl_address *local);
/* A request has arrived. Returns NULL if too many requests are pending; the requester may try
 * again. */
struct vipl_conn *vipl_up_conn_arrived(struct vipl_nic *nic, const struct vipl_address *local,
                                       const struct vipl_address *remote,
                                       const struct vipl_vi_params *params);
/* The requester has gone before it got an answer. The backend does not use `conn` afterwards. */
void vipl_up_conn_gone(struct vipl_conn *conn);
/* The VI is connected. Returns false if the VI does not wait for the connection any more. */
bool vipl_up_connected(struct vipl_vi *vi, const struct vipl_vi_params *remote);
/* The VI's request has failed with `rc`. */
void vipl_up_connect_failed(struct vipl_vi *vi, VIP_RETURN rc);
/* For conn_accept(): waits until any thread has called vipl_up_connected() or
 * vipl_up_connect_failed() for the VI, for at most `ms`; a signal may end the wait early. The
 * caller holds no lock. Returns false in a child that was forked meanwhile: the caller returns at
 * once and touches nothing. */
bool vipl_up_await_connected(struct vipl_vi *vi, uint32_t ms);

/* --- Failures. -------------------------------------------------------------------------------- */

/* Marks a VI whose connection has failed; from now on core executes and receives nothing more on
 * the VI. The caller holds a lock of the VI, or the lock of the backend that disconnect() takes.
 * Core holds the VI and puts it on a list of the calling thread. When the thread holds no lock any
 * more (after a post, after poll(), at the end of a call), core quiesces the device if it has
 * quiesce(), leaves CONNECTED, flushes the queues and reports `code`. Only the first failure of a
 * connection counts. */
void vipl_up_fail(struct vipl_vi *vi, VIP_ERROR_CODE code);
/* Returns true if any thread has marked the VI as failed. The load is relaxed: the answer may be
 * out of date at once. */
bool vipl_up_has_failed(const struct vipl_vi *vi);

/* --- Parameters and the service thread. ------------------------------------------------------- */

void vipl_up_vi_params(struct vipl_vi *vi, struct vipl_vi_params *out);
/* Returns the number of the tag whose memory the VI may name; 0: any tag of the NIC handle. */
uint32_t vipl_up_vi_tag(struct vipl_vi *vi);
/* Starts the NIC handle's service thread: from now on the backend must make progress also while no
 * thread of the program is in the library. */
VIP_RETURN vipl_up_need_service(struct vipl_nic *nic);
/* Requests a flush of deferred work. The program's next call that polls the device flushes the
 * work; if there is none within a moment, the service thread calls vipl_backend.flush_deferred()
 * (service.h). Returns false if the service thread cannot do so; with VIPL_PROGRESS=inline, where
 * all progress is made by the program's calls, returns true. The caller may hold a lock of the
 * backend. */
bool vipl_up_request_flush(struct vipl_nic *nic);
/* Whether the program opened the NIC handle with VIPX_INLINE: it waits in its own threads, and may
 * sleep for each message. */
bool vipl_up_waits_itself(const struct vipl_nic *nic);
/* Wakes the thread that sleeps for the backend, because the backend has something new to wait
 * for. */
void vipl_up_wake(struct vipl_nic *nic);
/* Returns VIP_SUCCESS, or the code for how the parameters of the two ends disagree. */
VIP_RETURN vipl_params_agree(const struct vipl_vi_params *a, const struct vipl_vi_params *b);

#endif
