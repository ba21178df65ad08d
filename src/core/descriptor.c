/* SPDX-License-Identifier: MIT */
/* The rules of the specification that concern one descriptor and its own memory. */
#include "core/descriptor.h"

#include "base/iov.h"
#include "core/nic.h"

enum { TOUCHABLE_ALIGNMENT = 8 }; /* with less alignment some CPUs cannot even write Status */

VIPL_COLD VIP_RETURN vipl_descriptor_admit(struct vipl_queue *q, const VIP_DESCRIPTOR *descriptor,
                                           VIP_MEM_HANDLE handle, uint32_t *status, uint16_t *segments)
{
    struct vipl_nic *nic = q->vi->nic;
    vipl_queue_reads(q);
    const struct vipl_region *region = vipl_mem_find(&nic->mem, handle);
    uint64_t address = (uint64_t)(uintptr_t)descriptor;
    if (region == NULL || address % TOUCHABLE_ALIGNMENT != 0 ||
        !vipl_region_has(region, address, vipl_descriptor_bytes(0)) ||
        !vipl_iov_can_read(descriptor, (size_t)vipl_descriptor_bytes(0))) {
        return VIP_INVALID_PARAMETER;
    }
    uint16_t count = descriptor->CS.SegCount;
    *segments = count;
    *status = 0;
    if (address % VIP_DESCRIPTOR_ALIGNMENT != 0 || count > nic->limits.max_segments ||
        !vipl_region_has(region, address, vipl_descriptor_bytes(count))) {
        *status = VIP_STATUS_FORMAT_ERROR;
    } else if (!vipl_mem_look_up(&nic->mem, &q->descriptors, handle, address, vipl_descriptor_bytes(count),
                                 q->vi->tag)) {
        *status = VIP_STATUS_PROTECTION_ERROR;
    }
    return VIP_SUCCESS;
}

/* The address of a data segment. A 32-bit program need not clear the upper half of the field, so
 * the pointer is read, and not the 64-bit number. */
static void *local_address(const VIP_DATA_SEGMENT *segment)
{
    return segment->Data.Address;
}

/* The address of an address segment, in the peer's memory. If the peer's program has 32-bit
 * addresses too, the upper half is ignored as in local_address(); otherwise all 64 bits count. The
 * send lock is held. */
static uint64_t remote_address(const struct vipl_vi *vi, const VIP_ADDRESS_SEGMENT *segment)
{
    bool pointer_alone = sizeof(void *) == 4 && vi->peer_params.is_32_bit;
    return pointer_alone ? (uintptr_t)segment->Data.Address : segment->Data.AddressBits;
}

/* Returns true if the memory of an admitted descriptor can be read. Without VIPL_SAFE_COPY the
 * program must keep it; with VIPL_SAFE_COPY the memory is checked. */
static bool is_readable(const struct vipl_work *work)
{
    return vipl_iov_can_read(work->descriptor, (size_t)vipl_descriptor_bytes(work->segments));
}

uint16_t vipl_descriptor_op(const struct vipl_work *work)
{
    const VIP_CONTROL_SEGMENT *cs = &work->descriptor->CS;
    return vipl_iov_can_read(cs, sizeof(*cs)) ? cs->Control & VIP_CONTROL_OP_MASK : VIP_CONTROL_OP_SENDRECV;
}

bool vipl_descriptor_is_fenced(const struct vipl_work *work)
{
    return is_readable(work) && (work->descriptor->CS.Control & VIP_CONTROL_QFENCE) != 0;
}

static VIPL_COLD bool is_found(struct vipl_queue *q, VIP_MEM_HANDLE handle, uint64_t address, size_t bytes)
{
    vipl_queue_reads(q);
    return vipl_mem_look_up(&q->vi->nic->mem, &q->data, handle, address, bytes, q->vi->tag);
}

static inline bool is_covered(struct vipl_queue *q, VIP_MEM_HANDLE handle, uint64_t address, size_t bytes)
{
    return VIPL_LIKELY(bytes <= vipl_recent_room(&q->data, &q->vi->nic->mem, handle, address)) ||
           is_found(q, handle, address, bytes);
}

/* Lists the first `most` bytes of the data segments from `first` on, and adds up the lengths of all
 * data segments. Each segment is read once. Only the segments that are listed are checked: an empty
 * segment has no memory to protect, and a segment behind these bytes is not accessed. If `send` is
 * not NULL, its `handles` get the handles of the listed segments. */
static inline uint32_t gather_segments(struct vipl_queue *q, const VIP_DESCRIPTOR *descriptor, unsigned first,
                                       unsigned count, size_t most, struct vipl_sg *out,
                                       struct vipl_send *send, uint64_t *all)
{
    uint32_t status = 0;
    size_t left = most;
    bool is_long = count - first > VIPL_FEW_SEGMENTS;
    out->iov = is_long ? q->long_list->iov : out->few;
    if (send != NULL) { /* a constant at each call */
        send->handles = is_long ? q->long_list->handles : send->few_handles;
    }
    out->count = 0;
    *all = 0;
    for (unsigned i = first; i < count; i++) {
        VIP_DATA_SEGMENT segment = vipl_descriptor_segment(descriptor, i)->Local;
        size_t bytes = segment.Length < left ? segment.Length : left;
        *all += segment.Length;
        if (bytes == 0) {
            continue;
        }
        unsigned at = out->count++;
        struct vipl_iov *iov = &out->iov[at];
        iov->base = local_address(&segment);
        iov->len = bytes;
        if (send != NULL) {
            send->handles[at] = segment.Handle;
        }
        left -= bytes;
        if (VIPL_UNLIKELY(!is_covered(q, segment.Handle, (uintptr_t)iov->base, bytes))) {
            status = VIP_STATUS_PROTECTION_ERROR;
            left = 0; /* the remaining segments are only added up */
        }
    }
    out->bytes = most - left;
    return status;
}

static bool op_is_legal(const struct vipl_vi *vi, uint16_t control, unsigned segments)
{
    unsigned op = control & VIP_CONTROL_OP_MASK;
    if (op == VIP_CONTROL_OP_RESERVED || (control & VIP_CONTROL_RESERVED) != 0) {
        return false;
    }
    if (op == VIP_CONTROL_OP_RDMAREAD &&
        ((vi->attributes.ReliabilityLevel & vi->nic->limits.rdma_read_levels) == 0 ||
         (control & VIP_CONTROL_IMMEDIATE) != 0)) {
        return false;
    }
    return op == VIP_CONTROL_OP_SENDRECV || segments > 0; /* RDMA needs its address segment */
}

uint32_t vipl_descriptor_read_send(struct vipl_vi *vi, const struct vipl_work *work, struct vipl_send *out)
{
    const VIP_DESCRIPTOR *descriptor = work->descriptor;
    unsigned first = 0;
    out->op = VIP_CONTROL_OP_SENDRECV;
    if (!is_readable(work)) {
        return VIP_STATUS_PROTECTION_ERROR;
    }
    uint16_t control = descriptor->CS.Control;
    unsigned count = descriptor->CS.SegCount;
    out->op = control & VIP_CONTROL_OP_MASK;
    out->immediate = (control & VIP_CONTROL_IMMEDIATE) != 0;
    out->immediate_data = descriptor->CS.ImmediateData;
    out->reliability = vi->attributes.ReliabilityLevel;
    out->status = 0;
    out->refused = false;
    if (VIPL_UNLIKELY(count > work->segments || !op_is_legal(vi, control, count))) {
        return VIP_STATUS_FORMAT_ERROR;
    }
    if (out->op != VIP_CONTROL_OP_SENDRECV) {
        VIP_ADDRESS_SEGMENT remote = vipl_descriptor_segment(descriptor, 0)->Remote;
        out->remote_address = remote_address(vi, &remote);
        out->remote_handle = remote.Handle;
        first = 1;
    }
    uint64_t all;
    uint32_t status = gather_segments(&vi->send, descriptor, first, count, SIZE_MAX, &out->local, out, &all);
    if (status == 0 && all > vi->attributes.MaxTransferSize) {
        status = VIP_STATUS_LENGTH_ERROR;
    }
    return status;
}

/* Returns true for an RDMA operation that the VI may request, with no other bit of Control set. */
static inline bool is_fast_rdma(const struct vipl_vi *vi, uint16_t control)
{
    return control == VIP_CONTROL_OP_RDMAWRITE ||
           (control == VIP_CONTROL_OP_RDMAREAD &&
            (vi->attributes.ReliabilityLevel & vi->nic->limits.rdma_read_levels) != 0);
}

bool vipl_descriptor_read_short_rdma(struct vipl_vi *vi, const VIP_DESCRIPTOR *descriptor, uint16_t control,
                                     struct vipl_rdma *out)
{
    VIP_DATA_SEGMENT piece;
    if (!is_fast_rdma(vi, control) || descriptor->CS.SegCount != 2 ||
        !vipl_descriptor_cached_piece(vi, &vi->send, descriptor, 1, &piece)) {
        return false;
    }
    VIP_ADDRESS_SEGMENT remote = vipl_descriptor_segment(descriptor, 0)->Remote; /* read once */
    out->write = control == VIP_CONTROL_OP_RDMAWRITE;
    out->local = piece.Data.Address;
    out->local_handle = piece.Handle;
    out->bytes = piece.Length;
    out->remote_address = remote_address(vi, &remote);
    out->remote_handle = remote.Handle;
    return true;
}

bool vipl_descriptor_read_send_fast(struct vipl_vi *vi, const struct vipl_work *work, struct vipl_send *out)
{
    const VIP_DESCRIPTOR *descriptor = work->descriptor;
    /* read once */
    uint16_t control = vipl_iov_is_safe() ? VIP_CONTROL_RESERVED : descriptor->CS.Control;
    struct vipl_rdma rdma;
    VIP_DATA_SEGMENT piece;
    if (control != VIP_CONTROL_OP_SENDRECV) {
        if (work->segments != 2 || !vipl_descriptor_read_short_rdma(vi, descriptor, control, &rdma)) {
            return false;
        }
        out->remote_address = rdma.remote_address;
        out->remote_handle = rdma.remote_handle;
        piece = (VIP_DATA_SEGMENT){
            .Data.Address = rdma.local, .Handle = rdma.local_handle, .Length = (VIP_ULONG)rdma.bytes};
    } else if (work->segments != 1 || descriptor->CS.SegCount != 1 ||
               !vipl_descriptor_cached_piece(vi, &vi->send, descriptor, 0, &piece)) {
        return false;
    }
    out->op = control;
    out->immediate = false;
    out->reliability = vi->attributes.ReliabilityLevel;
    out->immediate_data = 0;
    out->status = 0;
    out->refused = false;
    out->handles = out->few_handles;
    out->few_handles[0] = piece.Handle;
    vipl_sg_one(&out->local, piece.Data.Address, piece.Length);
    return true;
}

void *vipl_descriptor_recv_target_fast(struct vipl_vi *vi, const struct vipl_work *work, size_t bytes)
{
    const VIP_DESCRIPTOR *descriptor = work->descriptor;
    if (vipl_iov_is_safe() || descriptor->CS.Control != VIP_CONTROL_OP_SENDRECV ||
        descriptor->CS.SegCount != 1 || work->segments != 1) {
        return NULL;
    }
    VIP_DATA_SEGMENT segment = vipl_descriptor_segment(descriptor, 0)->Local; /* read once */
    void *to = local_address(&segment);
    bool fits = bytes <= segment.Length && bytes <= vi->attributes.MaxTransferSize;
    return fits && bytes <= vipl_recent_room(&vi->recv.data, &vi->nic->mem, segment.Handle, (uintptr_t)to)
               ? to
               : NULL;
}

static bool is_legal_recv(const struct vipl_work *work, unsigned segments)
{
    uint16_t control = work->descriptor->CS.Control;
    return segments <= work->segments && (control & VIP_CONTROL_OP_MASK) == VIP_CONTROL_OP_SENDRECV &&
           (control & VIP_CONTROL_RESERVED) == 0;
}

uint32_t vipl_descriptor_read_recv(struct vipl_vi *vi, const struct vipl_work *work, size_t bytes,
                                   struct vipl_sg *out)
{
    if (!is_readable(work)) {
        return VIP_STATUS_PROTECTION_ERROR;
    }
    unsigned count = work->descriptor->CS.SegCount;
    if (!is_legal_recv(work, count)) {
        return VIP_STATUS_FORMAT_ERROR;
    }
    uint64_t all;
    uint32_t status = gather_segments(&vi->recv, work->descriptor, 0, count, bytes, out, NULL, &all);
    return bytes > all || bytes > vi->attributes.MaxTransferSize ? VIP_STATUS_LENGTH_ERROR : status;
}

/* Lists the data segments up to the first byte that is not in the VI's memory, or that is beyond
 * MaxTransferSize, and returns the sum of the lengths of all segments. Each segment is read
 * once. */
static uint64_t gather_reachable(struct vipl_vi *vi, const VIP_DESCRIPTOR *descriptor, unsigned count,
                                 struct vipl_recv *out)
{
    const uint64_t most = vi->attributes.MaxTransferSize;
    uint64_t all = 0;
    bool is_long = count > VIPL_FEW_SEGMENTS;
    vipl_queue_reads(&vi->recv);
    out->local.iov = is_long ? vi->recv.long_list->iov : out->local.few;
    out->handles = is_long ? vi->recv.long_list->handles : out->few_handles;
    out->local.count = 0;
    out->local.bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        VIP_DATA_SEGMENT segment = vipl_descriptor_segment(descriptor, i)->Local;
        bool goes_on = out->local.bytes == all; /* all earlier segments were reachable */
        void *base = local_address(&segment);
        all += segment.Length;
        uint64_t bytes = most - out->local.bytes < segment.Length ? most - out->local.bytes : segment.Length;
        if (bytes == 0 || !goes_on) {
            continue;
        }
        uint64_t reach = vipl_mem_reach(&vi->nic->mem, segment.Handle, (uintptr_t)base, vi->tag);
        bytes = bytes < reach ? bytes : reach;
        if (bytes > 0) {
            unsigned at = out->local.count++;
            out->local.iov[at] = (struct vipl_iov){base, (size_t)bytes};
            out->handles[at] = segment.Handle;
            out->local.bytes += (size_t)bytes;
        }
    }
    return all;
}

/* Marks a receive of which nothing can be used. Returns `status`. */
static uint32_t mark_invalid(struct vipl_recv *out, uint32_t status)
{
    out->invalid = true;
    out->handles = out->few_handles;
    out->local.iov = out->local.few;
    out->local.count = 0;
    out->local.bytes = 0;
    return status;
}

uint32_t vipl_descriptor_read_posted(struct vipl_vi *vi, const struct vipl_work *work, struct vipl_recv *out,
                                     uint32_t *bytes)
{
    *bytes = 0;
    out->invalid = false;
    if (!is_readable(work)) {
        return mark_invalid(out, VIP_STATUS_PROTECTION_ERROR);
    }
    unsigned count = work->descriptor->CS.SegCount;
    if (!is_legal_recv(work, count)) {
        return mark_invalid(out, VIP_STATUS_FORMAT_ERROR);
    }
    uint64_t all = gather_reachable(vi, work->descriptor, count, out);
    uint64_t usable = all < vi->attributes.MaxTransferSize ? all : vi->attributes.MaxTransferSize;
    *bytes = (uint32_t)usable;
    return out->local.bytes < usable ? VIP_STATUS_PROTECTION_ERROR : 0;
}
