/* SPDX-License-Identifier: MIT */
/* Posting: what the entry points of the data path call. */
#ifndef VIPL_CORE_TRANSFER_H
#define VIPL_CORE_TRANSFER_H

#include "vipl/vipl.h"

struct vipl_vi;

/* VIP_INVALID_PARAMETER: `handle` is not that of a private VI of this process. */
VIP_RETURN vipl_post_send(void *handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);
VIP_RETURN vipl_post_recv(void *handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);

/* For a device that takes receives when they are posted (vipl_vi.takes_recvs). The VI's receive lock is held. */
void vipl_recvs_hand_over_locked(struct vipl_vi *vi); /* those posted, as far as it takes them now */
void vipl_recvs_take_back_locked(
    struct vipl_vi *vi); /* those handed over and not done are as if just posted */

#endif
