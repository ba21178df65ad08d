/* SPDX-License-Identifier: MIT */
/* Descriptors: core reads each one once, checks it, and turns it into a list of memory pieces. */
#ifndef VIPL_CORE_DESCRIPTOR_H
#define VIPL_CORE_DESCRIPTOR_H

#include "core/backend.h"
#include "core/nic.h"
#include "core/vi.h"
#include "os/os_compiler.h"

/* Checks a descriptor that the program posts. VIP_INVALID_PARAMETER: core must not touch the
 * descriptor at all. On success *status is 0 or the error bits with which the descriptor has to
 * complete, and *segments is its SegCount. Later reads fail if SegCount is larger than *segments,
 * because a peer may be able to write to the region. The queue's lock is held. */
VIP_RETURN vipl_descriptor_admit(struct vipl_queue *q, const VIP_DESCRIPTOR *descriptor,
                                 VIP_MEM_HANDLE handle, uint32_t *status, uint16_t *segments);

static inline uint64_t vipl_descriptor_bytes(unsigned segments)
{
    return sizeof(VIP_CONTROL_SEGMENT) + (uint64_t)segments * sizeof(VIP_DESCRIPTOR_SEGMENT);
}

/* Returns how many bytes from the descriptor's address on are in the region of the last descriptor.
 * Returns 0 if the fast path must not be used. */
static inline uint64_t vipl_descriptor_room(const struct vipl_vi *vi, const struct vipl_queue *q,
                                            const VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE handle)
{
    uint64_t address = (uint64_t)(uintptr_t)descriptor;
    uint64_t room = vipl_recent_room(&q->descriptors, &vi->nic->mem, handle, address);
    return address % VIP_DESCRIPTOR_ALIGNMENT == 0 && !vipl_iov_is_safe() ? room : 0;
}

/* The fast path of vipl_descriptor_admit(): returns true if the descriptor is valid and in the
 * region of the last descriptor. */
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

/* Returns VIP_CONTROL_OP_..., as the descriptor says now. */
uint16_t vipl_descriptor_op(const struct vipl_work *work);
/* Returns true if the send waits for earlier RDMA Reads. */
bool vipl_descriptor_is_fenced(const struct vipl_work *work);
/* Reads a send descriptor for execution. Returns 0 or error bits. The send lock is held. */
uint32_t vipl_descriptor_read_send(struct vipl_vi *vi, const struct vipl_work *work, struct vipl_send *out);
/* Reads a receive descriptor for the first `bytes` bytes of a message, and lists where they go.
 * Only the memory for these bytes is checked, because programs post receives that reach beyond
 * their region and get short messages. Returns 0 or error bits. The receive lock is held. */
uint32_t vipl_descriptor_read_recv(struct vipl_vi *vi, const struct vipl_work *work, size_t bytes,
                                   struct vipl_sg *out);
static inline const VIP_DESCRIPTOR_SEGMENT *vipl_descriptor_segment(const VIP_DESCRIPTOR *descriptor,
                                                                    unsigned i)
{
    return (const VIP_DESCRIPTOR_SEGMENT *)(const void *)((const char *)descriptor +
                                                          sizeof(VIP_CONTROL_SEGMENT)) +
           i;
}

/* Reads the i-th data segment, once. Returns true if the segment is not empty, in the region of the
 * last segment, and not longer than MaxTransferSize. */
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

/* Reads a descriptor as RDMA of one piece in the region of the last segment. `control` is its
 * Control, and its memory has room for two segments. False: it is another operation, or has another
 * form. */
bool vipl_descriptor_read_short_rdma(struct vipl_vi *vi, const VIP_DESCRIPTOR *descriptor, uint16_t control,
                                     struct vipl_rdma *out);

/* The fast path of vipl_descriptor_read_send(), for a message or RDMA of one piece in the region of
 * the last segment, without immediate data or other bits of Control. False: the descriptor has
 * another form. */
bool vipl_descriptor_read_send_fast(struct vipl_vi *vi, const struct vipl_work *work, struct vipl_send *out);

/* Returns where a message of `bytes` bytes (not 0) goes in this receive, if its target is one piece
 * in the region of the last segment. NULL: the caller has to use vipl_descriptor_read_recv(). */
void *vipl_descriptor_recv_target_fast(struct vipl_vi *vi, const struct vipl_work *work, size_t bytes);
/* Reads a receive descriptor for a device, before there is a message. out->local lists the memory
 * that a message may fill. *bytes is the length of the receive, or the length of the longest
 * message if that is less. Returns 0 if a message of up to *bytes fits into out->local. Otherwise
 * returns error bits: a message that is longer than out->local, up to *bytes, fails with them; if
 * out->invalid is set, each message does. */
uint32_t vipl_descriptor_read_posted(struct vipl_vi *vi, const struct vipl_work *work, struct vipl_recv *out,
                                     uint32_t *bytes);

#endif
