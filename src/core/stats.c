/* SPDX-License-Identifier: MIT */
/* Adding up the counts of queues and VIs. */
#include "core/stats.h"

#include <string.h>

#include "core/nic.h"
#include "core/vi.h"

/* Adds the counts of a VI. Both locks of the VI are held, or no other thread uses the VI. */
static void add_vi(VIPX_WORK_STATISTICS *to, const struct vipl_vi *vi)
{
    const struct vipl_done *sent = vi->send.done;
    const struct vipl_done *received = vi->recv.done;
    to->Sends += sent[VIP_CONTROL_OP_SENDRECV].works;
    to->SendBytes += sent[VIP_CONTROL_OP_SENDRECV].bytes;
    to->RdmaWrites += sent[VIP_CONTROL_OP_RDMAWRITE].works;
    to->RdmaWriteBytes += sent[VIP_CONTROL_OP_RDMAWRITE].bytes;
    to->RdmaReads += sent[VIP_CONTROL_OP_RDMAREAD].works;
    to->RdmaReadBytes += sent[VIP_CONTROL_OP_RDMAREAD].bytes;
    to->SendsFailed += vi->send.works_failed;
    to->Receives += received[VIP_CONTROL_OP_SENDRECV].works;
    to->ReceiveBytes += received[VIP_CONTROL_OP_SENDRECV].bytes;
    to->ReceivesFailed += vi->recv.works_failed;
    to->Connections += vi->connections;
    to->ConnectionsLost += vi->connections_lost;
    to->RequestsRefused += vi->requests_refused;
}

void vipl_stats_retire_locked(struct vipl_nic *nic, struct vipl_vi *vi)
{
    add_vi(&nic->retired.work, vi);
    nic->retired.vis++;
    vipl_queue_reset_stats(&vi->send);
    vipl_queue_reset_stats(&vi->recv);
    vi->connections = vi->connections_lost = vi->requests_refused = 0;
}

void vipl_stats_nic(struct vipl_nic *nic, VIPX_NIC_STATISTICS *out)
{
    memset(out, 0, sizeof(*out));
    vipl_mutex_lock(&nic->lock);
    out->Work = nic->retired.work;
    for (struct vipl_list *l = nic->vis.next; l != &nic->vis; l = l->next) {
        struct vipl_vi *vi = VIPL_CONTAINER(l, struct vipl_vi, nic_link);
        vipl_vi_lock(vi);
        /* A VI on the list is live, or has ended, or is not live yet and has counted nothing. */
        add_vi(&out->Work, vi);
        vipl_vi_unlock(vi);
    }
    out->RequestsTaken = nic->retired.requests_taken;
    out->RequestsRejected = nic->retired.requests_rejected;
    out->RequestsWaiting = nic->conns_waiting;
    out->VisCreated = nic->retired.vis + nic->vi_count;
    out->Vis = nic->vi_count;
    out->CompletionQueues = nic->cq_count;
    out->ProtectionTags = nic->ptag_count;
    vipl_mutex_unlock(&nic->lock);
    vipl_mutex_lock(&nic->mem.lock);
    out->Regions = nic->mem.live;
    out->RegisteredBytes = nic->mem.bytes;
    vipl_mutex_unlock(&nic->mem.lock);
}

VIP_RETURN vipl_stats_vi(struct vipl_nic *nic, VIPX_VI_STATISTICS *out)
{
    struct vipl_vi *vi = vipl_vi_lock_send(out->ViHandle);
    if (vi == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    vipl_biased_lock(&vi->recv.lock);
    bool mine = vi->nic == nic;
    if (mine) {
        memset(&out->Work, 0, sizeof(out->Work));
        add_vi(&out->Work, vi);
        out->SendsPosted = vi->send.posted - vi->send.reaped;
        out->ReceivesPosted = vi->recv.posted - vi->recv.reaped;
    }
    vipl_vi_unlock(vi);
    return mine ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}
