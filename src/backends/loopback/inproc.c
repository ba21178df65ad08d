/* SPDX-License-Identifier: MIT */
/*
 * Data within one process. The post itself finds the peer's receive, or checks the right of remote
 * access, copies once and completes both ends: no queue, no other thread and no system call takes
 * part. Runs under the sender's send lock and the receiver's receive lock.
 */

#include "backends/loopback/inproc.h"

#include <string.h>

#include "backends/loopback/loopback.h"
#include "base/iov.h"

/* Returns the status of a send whose message the peer did not receive. */
static uint32_t undelivered_status(const struct vipl_send *send)
{
    return send->reliability == VIP_SERVICE_RELIABLE_RECEPTION ? VIP_STATUS_REMOTE_DESC_ERROR : 0;
}

static uint32_t copy_to_receive(struct vipl_vi *peer, struct vipl_send *send, const struct vipl_sg *to)
{
    switch (vipl_iov_copy(to, &send->local)) {
    case VIPL_IOV_FAULT_FROM:
        return VIP_STATUS_PROTECTION_ERROR; /* the receive stays posted, for the next message */
    case VIPL_IOV_FAULT_TO:
        vipl_up_recv_finish(peer, VIP_STATUS_PROTECTION_ERROR, 0, false, NULL);
        return undelivered_status(send);
    case VIPL_IOV_DONE:
        break;
    }
    vipl_up_recv_finish(peer, 0, (uint32_t)send->local.bytes, false,
                        send->immediate ? &send->immediate_data : NULL);
    return 0;
}

static uint32_t send_local_message(struct vipl_vi *peer, struct vipl_send *send)
{
    struct vipl_sg to; /* not cleared */
    switch (vipl_up_recv_claim(peer, send->local.bytes, &to)) {
    case VIPL_CLAIM_OK:
        return copy_to_receive(peer, send, &to);
    case VIPL_CLAIM_EMPTY:
    case VIPL_CLAIM_FAILED:
        break;
    case VIPL_CLAIM_GONE: /* the connection is ending: the message is dropped, as on a network */
        return 0;
    }
    return undelivered_status(send);
}

/* Returns the sender's status when RDMA has found memory that is not there, on its side or on the
 * peer's. */
static uint32_t rdma_fault(struct vipl_vi *peer, bool write, enum vipl_iov_result fault)
{
    bool own = fault == (write ? VIPL_IOV_FAULT_FROM : VIPL_IOV_FAULT_TO);
    if (!own) {
        vipl_up_rdma_refuse(peer, write);
    }
    return own ? VIP_STATUS_PROTECTION_ERROR : VIP_STATUS_RDMA_PROT_ERROR;
}

static uint32_t rdma_write(struct vipl_vi *peer, struct vipl_send *send)
{
    if (!vipl_up_rdma_allowed(peer, true, send->remote_handle, send->remote_address, send->local.bytes)) {
        return VIP_STATUS_RDMA_PROT_ERROR;
    }
    if (send->local.bytes > 0) {
        enum vipl_iov_result fault =
            vipl_iov_ordered((unsigned char *)(uintptr_t)send->remote_address, &send->local);
        if (fault != VIPL_IOV_DONE) {
            return rdma_fault(peer, true, fault);
        }
    }
    if (!send->immediate) {
        return 0;
    }
    if (vipl_up_recv_claim(peer, 0, NULL) == VIPL_CLAIM_OK) {
        vipl_up_recv_finish(peer, 0, (uint32_t)send->local.bytes, true, &send->immediate_data);
        return 0;
    }
    return undelivered_status(send);
}

static uint32_t rdma_read(struct vipl_vi *peer, struct vipl_send *send)
{
    struct vipl_sg from;
    if (!vipl_up_rdma_allowed(peer, false, send->remote_handle, send->remote_address, send->local.bytes)) {
        return VIP_STATUS_RDMA_PROT_ERROR;
    }
    vipl_sg_one(&from, (void *)(uintptr_t)send->remote_address, send->local.bytes);
    enum vipl_iov_result fault = vipl_iov_copy(&send->local, &from);
    return fault == VIPL_IOV_DONE ? 0 : rdma_fault(peer, false, fault);
}

/* The caller holds the send lock of the VI whose peer this is. disconnect_local() takes that lock
 * too, so that the peer stays connected to this VI meanwhile; a peer that is leaving takes no
 * message. */
bool vipl_lo_local_send_short(struct vipl_vi *peer, const void *from, size_t bytes)
{
    return vipl_up_recv_take(peer, from, bytes);
}

bool vipl_lo_local_rdma_short(struct vipl_vi *vi, struct vipl_vi *peer, const struct vipl_rdma *rdma)
{
    unsigned char *remote = (unsigned char *)(uintptr_t)rdma->remote_address;
    vipl_up_recv_lock(peer);
    bool allowed = lo_vi_of(peer)->peer == vi && vipl_up_rdma_allows(peer, rdma->write, rdma->remote_handle,
                                                                     rdma->remote_address, rdma->bytes);
    if (allowed && rdma->write) {
        vipl_iov_put(remote, rdma->local, rdma->bytes);
    } else if (allowed) {
        memmove(rdma->local, remote, rdma->bytes);
    }
    vipl_up_recv_unlock(peer);
    return allowed;
}

enum vipl_posted vipl_lo_local_send(struct vipl_vi *vi, struct vipl_vi *peer, struct vipl_send *send)
{
    vipl_up_recv_lock(peer);
    if (lo_vi_of(peer)->peer != vi) { /* the peer has just disconnected; this VI is failed next */
        vipl_up_recv_unlock(peer);
        return VIPL_POSTED_AGAIN;
    }
    switch (send->op) {
    case VIP_CONTROL_OP_RDMAWRITE:
        send->status = rdma_write(peer, send);
        break;
    case VIP_CONTROL_OP_RDMAREAD:
        send->status = rdma_read(peer, send);
        break;
    default:
        send->status = send_local_message(peer, send);
        break;
    }
    vipl_up_recv_unlock(peer);
    return VIPL_POSTED_DONE;
}
