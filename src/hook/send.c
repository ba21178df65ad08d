/* SPDX-License-Identifier: MIT */
/*
 * Sends under a fault plan. Each gets a number when it first comes and keeps it while core offers it
 * again, so that the same sends meet the same faults. Runs under the VI's send lock: what breaks the
 * connection is noted as a failure of the VI, which core finishes once the lock is released.
 */
#include "core/backend_up.h"
#include "core/nic.h"
#include "core/vi.h"
#include "hook/hook_nic.h"

static void report_event(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_send *send,
                         uint32_t code)
{
    static const uint32_t op_bits[] = {VIP_STATUS_OP_SEND, VIP_STATUS_OP_RDMA_WRITE, VIP_STATUS_OP_RDMA_READ};
    VIP_ERROR_DESCRIPTOR error = {
        .NicHandle = be->core->public_handle,
        .ViHandle = vi->handle,
        .ResourceCode = VIP_RESOURCE_VI,
        .ErrorCode = (VIP_ERROR_CODE)code,
    };
    if (code == VIP_ERROR_CATASTROPHIC) {
        error.ViHandle = NULL;
        error.ResourceCode = VIP_RESOURCE_NIC;
    } else if (code == VIP_ERROR_COMP_PROT && vi->send.cq != NULL) {
        error.ResourceCode = VIP_RESOURCE_CQ;
        error.CQHandle = vi->send.cq->handle;
    } else if (code == VIP_ERROR_COMP_PROT || code == VIP_ERROR_POST_DESC) {
        error.ResourceCode = VIP_RESOURCE_DESCRIPTOR;
        error.DescriptorPtr = vipl_queue_at(&vi->send, send->sequence)->descriptor;
        error.OpCode = op_bits[send->op];
    }
    vipl_error_report(be->core, &error);
}

/* The send's outcome: the plan's, or the backend's. A lost message is a success to an unreliable sender;
 * a reliable transport that loses one has failed. */
static enum vipl_posted send_or_fail(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send,
                                     const struct vipl_send_faults *faults)
{
    uint32_t status = faults->status;
    if (faults->drop && send->reliability != VIP_SERVICE_UNRELIABLE) {
        status |= VIP_STATUS_TRANSPORT_ERROR;
    }
    if (status == 0 && !faults->drop) {
        return be->ops->post_send(be->be, vi, send);
    }
    send->status = status;
    return VIPL_POSTED_DONE;
}

/* A new send that the backend has no room for gives its number back, for when core offers it again. */
static void return_number(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_send *send,
                          uint32_t number)
{
    if (!vipl_compare_exchange(&be->faults.sends, number, number - 1)) {
        vipl_delays_hold(&be->delays, vi, send->sequence, number, 0); /* others were numbered since */
    }
}

enum vipl_posted vipl_hook_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send)
{
    struct vipl_send_faults faults;
    uint32_t polls = 0;
    uint32_t number = vipl_delays_find(&be->delays, vi, send->sequence, &polls);
    bool held = number != 0;
    if (polls > 0) {
        return VIPL_POSTED_AGAIN;
    }
    if (!held) {
        number = vipl_fetch_add(&be->faults.sends, 1) + 1;
    }
    vipl_faults_of_send(&be->faults, number, &faults);
    if (!held && faults.polls > 0 &&
        vipl_delays_hold(&be->delays, vi, send->sequence, number, faults.polls)) {
        vipl_up_wake(be->core);
        return VIPL_POSTED_AGAIN;
    }
    enum vipl_posted posted = send_or_fail(be, vi, send, &faults);
    if (posted == VIPL_POSTED_AGAIN) {
        if (!held) {
            return_number(be, vi, send, number);
        }
        return posted;
    }
    if (held) {
        vipl_delays_drop(&be->delays, vi);
    }
    for (uint32_t code = 0; faults.events >> code != 0; code++) {
        if ((faults.events >> code & 1) != 0) {
            report_event(be, vi, send, code);
        }
    }
    if (faults.disconnect) {
        vipl_vi_fail(vi, VIP_ERROR_CONN_LOST);
    }
    return posted;
}

void vipl_hook_resume(struct vipl_be_nic *be)
{
    struct vipl_vi *due[VIPL_DELAYS];
    unsigned count = vipl_delays_polled(&be->delays, due);
    for (unsigned i = 0; i < count; i++) { /* one that was destroyed meanwhile has nothing to send */
        vipl_up_send_resume(due[i]);
    }
}
