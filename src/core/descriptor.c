/* SPDX-License-Identifier: MIT */
/* Rules of section 4 of the contract that concern one descriptor and its own memory. */
#include "core/descriptor.h"

#include "core/nic.h"

enum { TOUCHABLE_ALIGNMENT = 8 }; /* below this even Status could not be written on every CPU */

static const VIP_DESCRIPTOR_SEGMENT *segment_at(const VIP_DESCRIPTOR *descriptor, unsigned i)
{
    return (const VIP_DESCRIPTOR_SEGMENT *)(const void *)((const char *)descriptor +
                                                          sizeof(VIP_CONTROL_SEGMENT)) +
           i;
}

static uint64_t segments_bytes(unsigned count)
{
    uint64_t bytes = sizeof(VIP_CONTROL_SEGMENT) + (uint64_t)count * sizeof(VIP_DESCRIPTOR_SEGMENT);
    return bytes;
}

VIP_RETURN vipl_descriptor_admit(struct vipl_vi *vi, const VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE handle,
                                 uint32_t *status, uint16_t *segments)
{
    struct vipl_mem *mem = &vi->nic->mem;
    uint64_t address = (uint64_t)(uintptr_t)descriptor;
    *status = 0;
    if (address % TOUCHABLE_ALIGNMENT != 0 ||
        !vipl_mem_covers(mem, handle, address, segments_bytes(0), 0, 0)) {
        return VIP_INVALID_PARAMETER;
    }
    uint16_t count = descriptor->CS.SegCount;
    *segments = count;
    if (address % VIP_DESCRIPTOR_ALIGNMENT != 0 || count > vi->nic->limits.max_segments) {
        *status = VIP_STATUS_FORMAT_ERROR;
    } else if (!vipl_mem_covers(mem, handle, address, segments_bytes(count), vi->tag, 0)) {
        *status = vipl_mem_covers(mem, handle, address, segments_bytes(count), 0, 0)
                      ? VIP_STATUS_PROTECTION_ERROR
                      : VIP_STATUS_FORMAT_ERROR;
    }
    return VIP_SUCCESS;
}

/* Appends the data segments from `first` on. Protection is per segment; an empty one names nothing. */
static uint32_t gather(struct vipl_vi *vi, const VIP_DESCRIPTOR *descriptor, unsigned first, unsigned count,
                       struct vipl_sg *out)
{
    out->count = 0;
    out->bytes = 0;
    for (unsigned i = first; i < count; i++) {
        VIP_DATA_SEGMENT segment = segment_at(descriptor, i)->Local;
        if (segment.Length == 0) {
            continue;
        }
        if (!vipl_mem_covers(&vi->nic->mem, segment.Handle, segment.Data.AddressBits, segment.Length, vi->tag,
                             0)) {
            return VIP_STATUS_PROTECTION_ERROR;
        }
        struct vipl_iov *iov = &out->iov[out->count++];
        iov->base = (void *)(uintptr_t)segment.Data.AddressBits;
        iov->len = segment.Length;
        out->bytes += segment.Length;
    }
    return 0;
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
    uint16_t control = descriptor->CS.Control;
    unsigned count = descriptor->CS.SegCount;
    unsigned first = 0;
    out->op = control & VIP_CONTROL_OP_MASK;
    out->immediate = (control & VIP_CONTROL_IMMEDIATE) != 0;
    out->immediate_data = descriptor->CS.ImmediateData;
    out->reliability = vi->attributes.ReliabilityLevel;
    out->status = 0;
    out->refused = false;
    out->settle = NULL;
    if (count > work->segments || !op_is_legal(vi, control, count)) {
        return VIP_STATUS_FORMAT_ERROR;
    }
    if (out->op != VIP_CONTROL_OP_SENDRECV) {
        VIP_ADDRESS_SEGMENT remote = segment_at(descriptor, 0)->Remote;
        out->remote_address = remote.Data.AddressBits;
        out->remote_handle = remote.Handle;
        first = 1;
    }
    uint32_t status = gather(vi, descriptor, first, count, &out->local);
    if (status == 0 && out->local.bytes > vi->attributes.MaxTransferSize) {
        status = VIP_STATUS_LENGTH_ERROR;
    }
    return status;
}

uint32_t vipl_descriptor_read_recv(struct vipl_vi *vi, const struct vipl_work *work, struct vipl_sg *out)
{
    const VIP_DESCRIPTOR *descriptor = work->descriptor;
    uint16_t control = descriptor->CS.Control;
    unsigned count = descriptor->CS.SegCount;
    if (count > work->segments || (control & VIP_CONTROL_OP_MASK) != VIP_CONTROL_OP_SENDRECV ||
        (control & VIP_CONTROL_RESERVED) != 0) {
        return VIP_STATUS_FORMAT_ERROR;
    }
    return gather(vi, descriptor, 0, count, out);
}
