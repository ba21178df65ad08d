/* SPDX-License-Identifier: MIT */
/* Posting descriptors, for the entry points of the data path (src/api/vip_transfer.c). */
#ifndef VIPL_CORE_TRANSFER_H
#define VIPL_CORE_TRANSFER_H

#include "core/descriptor.h"
#include "core/vi.h"
#include "vipl/vipl.h"

/* Post a descriptor, whose memory is registered as `memory`, on a VI. The caller holds no lock.
 * VIP_INVALID_PARAMETER: `handle` is not the handle of a private (unshared) VI of this process. */
VIP_RETURN vipl_post_send(void *handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);
VIP_RETURN vipl_post_recv(void *handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);

/* Posts a descriptor that vipl_descriptor_admit_fast() admits. On false nothing has happened. The
 * queue's lock is held. */
static inline bool vipl_post_fast_locked(struct vipl_vi *vi, struct vipl_queue *q, VIP_DESCRIPTOR *descriptor,
                                         VIP_MEM_HANDLE memory)
{
    uint16_t segments;
    if (!vipl_queue_has_room(q) || !vipl_descriptor_admit_fast(vi, q, descriptor, memory, &segments)) {
        return false;
    }
    vipl_queue_put_locked(q, descriptor, segments);
    return true;
}

/* The fast path of vipl_post_recv(). On false nothing has happened. The VI's receive lock is
 * held. */
static inline bool vipl_post_recv_fast_locked(struct vipl_vi *vi, VIP_DESCRIPTOR *descriptor,
                                              VIP_MEM_HANDLE memory)
{
    return !vi->takes_recvs && vi->state != VIP_STATE_ERROR &&
           vipl_post_fast_locked(vi, &vi->recv, descriptor, memory);
}

/* For a device that takes receives when they are posted (vipl_vi.takes_recvs); no effect for other
 * devices. The VI's receive lock is held.
 *
 * Hands the posted receives over to the backend, in order, until the backend has no room. */
void vipl_recvs_hand_over_locked(struct vipl_vi *vi);
/* Takes the receives back that the backend has and that are not done: they are posted again, and
 * not handed over. */
void vipl_recvs_take_back_locked(struct vipl_vi *vi);

#endif
