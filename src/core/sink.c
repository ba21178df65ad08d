/* SPDX-License-Identifier: MIT */
/* Calls for the owner of sinks outside core, by handles of VIs and NICs. */
#include "core/sink.h"

#include "core/nic.h"
#include "core/vi.h"

void vipl_sink_attach(void *vi_handle, struct vipl_sink *const sinks[2], uint32_t limit)
{
    struct vipl_vi *vi = vipl_vi_lock_quiet(vi_handle);
    if (vi != NULL) {
        vi->send.sink = sinks[0];
        vi->recv.sink = sinks[1];
        vipl_queue_watch(&vi->send);
        vipl_queue_watch(&vi->recv);
        vi->send.limit = vi->recv.limit = limit;
        vipl_vi_unlock(vi);
    }
}

void vipl_sink_taken(void *vi_handle, bool recv, uint32_t taken)
{
    struct vipl_queue *q = vipl_vi_lock_queue(vi_handle, recv);
    if (q != NULL) {
        if (taken - q->reaped <= q->completed - q->reaped) {
            vipl_store_relaxed(&q->reaped, taken);
        }
        vipl_biased_unlock(&q->lock);
    }
}

VIP_RETURN vipl_sink_serve(void *nic_handle)
{
    struct vipl_nic *nic = vipl_nic_get(nic_handle);
    if (nic == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    nic->progress_mode = VIPL_PROGRESS_THREAD; /* no other thread uses the NIC handle yet */
    VIP_RETURN rc = vipl_service_start(nic);
    if (rc == VIP_SUCCESS) {
        vipl_service_count_fd(nic, true);
    }
    vipl_nic_put(nic);
    return rc;
}
