/* SPDX-License-Identifier: MIT */
/* Posting: what the entry points of the data path call. */
#ifndef VIPL_CORE_TRANSFER_H
#define VIPL_CORE_TRANSFER_H

#include "core/descriptor.h"
#include "core/vi.h"
#include "vipl/vipl.h"

/* VIP_INVALID_PARAMETER: `handle` is not that of a private VI of this process. */
VIP_RETURN vipl_post_send(void *handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);
VIP_RETURN vipl_post_recv(void *handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);

/* Whether it is admitted without more ado, and posted. The queue's lock is held. */
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

/* The short path of vipl_post_recv(), with the receive lock of the VI. False: nothing has happened. */
static inline bool vipl_post_recv_fast_locked(struct vipl_vi *vi, VIP_DESCRIPTOR *descriptor,
                                              VIP_MEM_HANDLE memory)
{
    return !vi->takes_recvs && vi->state != VIP_STATE_ERROR &&
           vipl_post_fast_locked(vi, &vi->recv, descriptor, memory);
}

/* For a device that takes receives when they are posted (vipl_vi.takes_recvs). The VI's receive lock is held. */
void vipl_recvs_hand_over_locked(struct vipl_vi *vi); /* those posted, as far as it takes them now */
void vipl_recvs_take_back_locked(
    struct vipl_vi *vi); /* those handed over and not done are as if just posted */

#endif
