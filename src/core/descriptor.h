/* SPDX-License-Identifier: MIT */
/* Descriptors: read once, checked, turned into lists of memory pieces. */
#ifndef VIPL_CORE_DESCRIPTOR_H
#define VIPL_CORE_DESCRIPTOR_H

#include "core/backend.h"
#include "core/nic.h"
#include "core/vi.h"
#include "os/os_compiler.h"

/* Whether a descriptor may be posted: VIP_SUCCESS, or VIP_INVALID_PARAMETER if it must not be touched at all. On
 * success, *status is 0 or the error bits with which the descriptor is to complete, and *segments is its
 * SegCount; later it may not be larger, since a peer may be allowed to write into the region. The lock of the queue is held. */
VIP_RETURN vipl_descriptor_admit(struct vipl_queue *q, const VIP_DESCRIPTOR *descriptor,
                                 VIP_MEM_HANDLE handle, uint32_t *status, uint16_t *segments);

static inline uint64_t vipl_descriptor_bytes(unsigned segments)
{
    return sizeof(VIP_CONTROL_SEGMENT) + (uint64_t)segments * sizeof(VIP_DESCRIPTOR_SEGMENT);
}

/* How many bytes from a descriptor's address on lie in the memory of the last one; 0: its place is not of the usual kind. */
static inline uint64_t vipl_descriptor_room(const struct vipl_vi *vi, const struct vipl_queue *q,
                                            const VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE handle)
{
    uint64_t address = (uint64_t)(uintptr_t)descriptor;
    uint64_t room = vipl_recent_room(&q->descriptors, &vi->nic->mem, handle, address);
    return address % VIP_DESCRIPTOR_ALIGNMENT == 0 && !vipl_iov_is_safe() ? room : 0;
}

/* Whether it is without a fault and in the memory of the last one: the usual case. */
static inline bool vipl_descriptor_admit_fast(struct vipl_vi *vi, struct vipl_queue *q,
                                              const VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE handle,
                                              uint16_t *segments)
{
    uint64_t room = vipl_descriptor_room(vi, q, descriptor, handle);
    if (room < vipl_descriptor_bytes(0)) {
        return false;
    }
    *segments = descriptor->CS.SegCount;
    return vipl_descriptor_bytes(*segments) <= room && *segments <= vi->nic->limits.max_segments &&
           vipl_queue_lists(q, *segments);
}

/* VIP_CONTROL_OP_..., as its descriptor says now. */
uint16_t vipl_descriptor_op(const struct vipl_work *work);
/* Whether the send waits for earlier RDMA Reads. */
bool vipl_descriptor_is_fenced(const struct vipl_work *work);
/* Reads a send descriptor for execution. Returns 0, or error bits. */
uint32_t vipl_descriptor_read_send(struct vipl_vi *vi, const struct vipl_work *work, struct vipl_send *out);
/* Reads a receive for a message of which so many bytes are to be placed by now, and lists where they go. Only
 * these bytes are checked, because programs post receives that reach beyond their region and get short messages.
 * Returns 0, or error bits. */
uint32_t vipl_descriptor_read_recv(struct vipl_vi *vi, const struct vipl_work *work, size_t bytes,
                                   struct vipl_sg *out);
static inline const VIP_DESCRIPTOR_SEGMENT *vipl_descriptor_segment(const VIP_DESCRIPTOR *descriptor,
                                                                    unsigned i)
{
    return (const VIP_DESCRIPTOR_SEGMENT *)(const void *)((const char *)descriptor +
                                                          sizeof(VIP_CONTROL_SEGMENT)) +
           i;
}

/* The data segment with that number, read once, if it is not empty and within the memory of the last one. */
static inline bool vipl_descriptor_cached_piece(struct vipl_vi *vi, struct vipl_queue *q,
                                                const VIP_DESCRIPTOR *descriptor, unsigned i,
                                                VIP_DATA_SEGMENT *out)
{
    *out = vipl_descriptor_segment(descriptor, i)->Local;
    uint64_t address = (uintptr_t)out->Data.Address;
    return out->Length != 0 &&
           out->Length <= vipl_recent_room(&q->data, &vi->nic->mem, out->Handle, address) &&
           out->Length <= vi->attributes.MaxTransferSize;
}

/* Reads a descriptor, which has that Control and room for two segments, as RDMA of one such piece. False: it is not that. */
bool vipl_descriptor_read_short_rdma(struct vipl_vi *vi, const VIP_DESCRIPTOR *descriptor, uint16_t control,
                                     struct vipl_rdma *out);

/* vipl_descriptor_read_send() for a message or RDMA of one such piece, without immediate data or other bits. False: it is neither. */
bool vipl_descriptor_read_send_fast(struct vipl_vi *vi, const struct vipl_work *work, struct vipl_send *out);

/* Where a message of so many bytes, not 0, goes that finds this receive, if that is one piece in the memory of the last one.
 * NULL: vipl_descriptor_read_recv() has to find out. */
void *vipl_descriptor_recv_target_fast(struct vipl_vi *vi, const struct vipl_work *work, size_t bytes);
/* Reads a receive for a device, which takes it before there is a message: lists the memory that a message may fill, and says
 * what becomes of a longer one, up to `bytes`, the length of the receive or of the longest message. 0: nothing. Error bits: it fails with them; with
 * out->invalid set, any message does. */
uint32_t vipl_descriptor_read_posted(struct vipl_vi *vi, const struct vipl_work *work, struct vipl_recv *out,
                                     uint32_t *bytes);

#endif
