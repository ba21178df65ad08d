/* SPDX-License-Identifier: MIT */
/*
 * The few calls a backend may make up into core. Unless a comment says otherwise they are called
 * with no lock but the backend's own RX lock or none held.
 */
#ifndef VIPL_CORE_BACKEND_UP_H
#define VIPL_CORE_BACKEND_UP_H

#include "core/backend.h"

/* --- sending ------------------------------------------------------------------------------------- */

/* A pending send is over, with VIP_STATUS error bits (0: success) and the bytes moved. */
void vipl_up_send_done(struct vipl_vi *vi, uint32_t sequence, uint32_t status, uint32_t length);
/* A pending send that has succeeded. */
struct vipl_send_done {
    uint32_t sequence;
    uint32_t length;
};
/* Completes pending sends of a VI without error, in posting order. */
void vipl_up_sends_done(struct vipl_vi *vi, const struct vipl_send_done *done, unsigned count);
/* There may be room again for sends that were told VIPL_POSTED_AGAIN. */
void vipl_up_send_resume(struct vipl_vi *vi);
/* The pieces of the pending RDMA Read `sequence`, checked again; false: no such read, or it is not valid. The VI's
 * send lock is held by the caller, through vipl_up_send_lock(). */
bool vipl_up_read_target(struct vipl_vi *vi, uint32_t sequence, struct vipl_sg *out);
/* The pending send `sequence`, an ordinary one, read and checked again; as above. */
bool vipl_up_pending_send(struct vipl_vi *vi, uint32_t sequence, struct vipl_send *out);
void vipl_up_send_lock(struct vipl_vi *vi);
void vipl_up_send_unlock(struct vipl_vi *vi);

/* --- receiving: under the VI's receive lock ------------------------------------------------------------ */

void vipl_up_recv_lock(struct vipl_vi *vi);
void vipl_up_recv_unlock(struct vipl_vi *vi);

enum vipl_claim {
    VIPL_CLAIM_OK,     /* out names where the data goes; finish the receive afterwards */
    VIPL_CLAIM_EMPTY,  /* no receive is posted: reported, and on a reliable VI the connection ends */
    VIPL_CLAIM_FAILED, /* the receive was there and failed (too short, malformed): completed so */
    VIPL_CLAIM_GONE    /* the VI is not to receive: drop the message */
};
/* Takes the oldest posted receive for a message of `bytes`, or of so many up to now: they are checked, and out lists where
 * they go. It may be NULL for a message that places nothing (RDMA Write with immediate). Until vipl_up_recv_finish() the
 * same receive is claimed again. */
enum vipl_claim vipl_up_recv_claim(struct vipl_vi *vi, size_t bytes, struct vipl_sg *out);
/* Claims the oldest receive, copies the whole message into it and completes it, if that is simple: one piece, in memory that
 * received before. False: nothing has happened. The bytes are in this process's own memory, or in a ring. It takes the receive lock
 * itself. */
bool vipl_up_recv_take(struct vipl_vi *vi, const void *from, size_t bytes);
/* Completes the claimed receive: error bits or 0. `rdma`: by an RDMA Write with immediate. */
void vipl_up_recv_finish(struct vipl_vi *vi, uint32_t status, uint32_t length, bool rdma,
                         const uint32_t *immediate);
/*
 * For a device that takes receives when they are posted (post_recv). These three take the receive lock themselves.
 *
 * A receive that was handed over is over: VIP_STATUS error bits or 0; `length` is the bytes placed, and with
 * VIP_STATUS_LENGTH_ERROR those of the message, as far as known; `rdma`: by an RDMA Write with immediate data; `immediate` may
 * be NULL. After a failed receive the connection of a reliable VI ends. A number that names no receive which the backend has is
 * ignored, and logged once for a VI.
 */
void vipl_up_recv_done(struct vipl_vi *vi, uint32_t sequence, uint32_t status, uint32_t length, bool rdma,
                       const uint32_t *immediate);
/* There may be room again for receives that were told VIPL_POSTED_AGAIN. */
void vipl_up_recv_resume(struct vipl_vi *vi);
/* A message came and found no receive: as VIPL_CLAIM_EMPTY. */
void vipl_up_recv_missing(struct vipl_vi *vi);
/* Whether the peer may write (read) these bytes of this program. If not, it is reported here, and on a
 * reliable VI the connection ends. */
bool vipl_up_rdma_allows(struct vipl_vi *vi, bool write, VIP_MEM_HANDLE handle, uint64_t address,
                         uint64_t bytes); /* the same, and if not, nothing has happened */
bool vipl_up_rdma_allowed(struct vipl_vi *vi, bool write, VIP_MEM_HANDLE handle, uint64_t address,
                          uint64_t bytes);
/* Why it did not: for a transport that tells the peer. */
enum vipl_mem_fault vipl_up_rdma_fault(struct vipl_vi *vi, bool write, VIP_MEM_HANDLE handle,
                                       uint64_t address, uint64_t bytes);
/* The same outcome, for an access that was allowed, to memory that turned out not to be there. */
void vipl_up_rdma_refuse(struct vipl_vi *vi, bool write);
/* --- connections -------------------------------------------------------------------------------------------- */

/* Whether the NIC handle takes requests for the discriminator: the one list of listeners is core's. */
bool vipl_up_listens(struct vipl_nic *nic, const struct vipl_address *local);
/* A request arrived. NULL: too many are pending; the requester may try again. */
struct vipl_conn *vipl_up_conn_arrived(struct vipl_nic *nic, const struct vipl_address *local,
                                       const struct vipl_address *remote,
                                       const struct vipl_vi_params *params);
/* The requester went away before an answer. The backend must not name the conn any more. */
void vipl_up_conn_gone(struct vipl_conn *conn);
/* The VI is connected; false: it does not wait for that any more. */
bool vipl_up_connected(struct vipl_vi *vi, const struct vipl_vi_params *remote);
/* The VI's request failed with `rc`. */
void vipl_up_connect_failed(struct vipl_vi *vi, VIP_RETURN rc);
/* For conn_accept: waits until one of the above has been called for the VI, by any thread, for `ms` at most; a signal may
 * end it early. No lock held. False: this is a child that was forked meanwhile; return at once, and touch nothing. */
bool vipl_up_await_connected(struct vipl_vi *vi, uint32_t ms);

/* --- failures --------------------------------------------------------------------------------------------- */

/* The VI's connection has failed. The caller holds a lock of the VI's, or the lock of the backend's that `disconnect` takes.
 * From here on nothing more is executed or received. The VI is held, and put on a list of the calling thread; once the
 * thread holds no lock (after a post, after poll, at the end of a call), core quiesces a device that has to be, leaves
 * CONNECTED, flushes the queues and reports `code`. Only the first failure of a connection counts. */
void vipl_up_fail(struct vipl_vi *vi, VIP_ERROR_CODE code);
/* Whether that has happened, in any thread. A relaxed look: a moment later the answer may be another. */
bool vipl_up_has_failed(const struct vipl_vi *vi);

/* --- params -------------------------------------------------------------------------------------------------------- */

void vipl_up_vi_params(struct vipl_vi *vi, struct vipl_vi_params *out);
/* The tag number whose memory the VI may name; 0: any tag of the NIC handle. */
uint32_t vipl_up_vi_tag(struct vipl_vi *vi);
/* Something must advance with nobody calling in from now on: the NIC handle gets its service thread. */
VIP_RETURN vipl_up_need_service(struct vipl_nic *nic);
/* Something is to be done within a moment, at best by the program's next call that looks at the device: if it makes none, the
 * service thread calls vipl_backend.flush_deferred, soon enough (service.h). False: it cannot. A lock of the backend's may be held. */
bool vipl_up_request_flush(struct vipl_nic *nic);
/* Wakes the thread that sleeps for the backend, which has found something new to wait for. */
void vipl_up_wake(struct vipl_nic *nic);
/* VIP_SUCCESS, or how the two ends of a connection disagree. */
VIP_RETURN vipl_params_agree(const struct vipl_vi_params *a, const struct vipl_vi_params *b);

#endif
