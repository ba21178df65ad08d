/* SPDX-License-Identifier: MIT */
/* Descriptors: read once, checked, turned into lists of memory pieces. */
#ifndef VIPL_CORE_DESCRIPTOR_H
#define VIPL_CORE_DESCRIPTOR_H

#include "core/backend.h"
#include "core/vi.h"

/* Whether a descriptor may be posted: VIP_SUCCESS, or VIP_INVALID_PARAMETER if it must not be touched at all. On
 * success, *status is 0 or the error bits with which the descriptor is to complete, and *segments is its
 * SegCount; later it may not be larger, since a peer may be allowed to write into the region. A queue lock of the
 * VI is held. */
VIP_RETURN vipl_descriptor_admit(struct vipl_vi *vi, const VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE handle,
                                 uint32_t *status, uint16_t *segments);
/* Whether the send waits for earlier RDMA Reads. */
bool vipl_descriptor_is_fenced(const struct vipl_work *work);
/* Reads a send descriptor for execution. Returns 0, or error bits. */
uint32_t vipl_descriptor_read_send(struct vipl_vi *vi, const struct vipl_work *work, struct vipl_send *out);
/* Reads a receive for a message of which so many bytes are to be placed by now, and lists where they go. Only
 * these bytes are checked, because programs post receives that reach beyond their region and get short messages.
 * Returns 0, or error bits. */
uint32_t vipl_descriptor_read_recv(struct vipl_vi *vi, const struct vipl_work *work, size_t bytes,
                                   struct vipl_sg *out);
/* Reads a receive for a device, which takes it before there is a message: lists the memory that a message may fill, and says
 * what becomes of a longer one, up to `bytes`, the length of the receive. 0: nothing. Error bits: it fails with them; with
 * out->invalid set, any message does. */
uint32_t vipl_descriptor_read_posted(struct vipl_vi *vi, const struct vipl_work *work, struct vipl_recv *out,
                                     uint32_t *bytes);

#endif
