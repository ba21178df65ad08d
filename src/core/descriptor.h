/* SPDX-License-Identifier: MIT */
/* Descriptors: read once, checked, turned into lists of memory pieces. */
#ifndef VIPL_CORE_DESCRIPTOR_H
#define VIPL_CORE_DESCRIPTOR_H

#include "core/backend.h"
#include "core/vi.h"

/* Whether a descriptor may be posted: VIP_SUCCESS; VIP_INVALID_PARAMETER: not to be touched at all. With
 * success, *status is 0 or the error bits it is to complete with, and *segments its SegCount: later it may not be
 * more, since a peer may be allowed to write into the region. A queue lock of the VI is held. */
VIP_RETURN vipl_descriptor_admit(struct vipl_vi *vi, const VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE handle,
                                 uint32_t *status, uint16_t *segments);
/* Whether it waits for earlier RDMA Reads. */
bool vipl_descriptor_is_fenced(const struct vipl_work *work);
/* Read a send descriptor for execution. 0, or error bits. */
uint32_t vipl_descriptor_read_send(struct vipl_vi *vi, const struct vipl_work *work, struct vipl_send *out);
/* Read a receive for a message of which so many bytes are to be placed by now: lists where. Only these are checked, for
 * programs post receives that reach beyond their region and get short messages. 0, or error bits. */
uint32_t vipl_descriptor_read_recv(struct vipl_vi *vi, const struct vipl_work *work, size_t bytes,
                                   struct vipl_sg *out);

#endif
