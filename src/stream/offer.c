/* SPDX-License-Identifier: MIT */
/* Large transfers: memory that one end offers and the other one reads, without buffers between. */
#include <errno.h>

#include "base/deadline.h"
#include "stream/endpoint.h"
#include "stream/nic.h"

/* Returns why nothing can be offered, or 0. */
static int refusal_locked(struct vipl_stream *stream, size_t bytes)
{
    vipl_stream_take_locked(stream);
    if (stream->state.finishing || vipl_stream_is_aborted(stream) || stream->state.close_received) {
        return EPIPE;
    }
    if (stream->lost) {
        return ECONNRESET;
    }
    if (bytes == 0 || bytes > VIPL_STREAM_MAX_OFFER) {
        return EINVAL;
    }
    return stream->begun && stream->offer_memory == NULL &&
                   vipl_stream_can_send_locked(stream, VIPL_STREAM_RTS)
               ? 0
               : EAGAIN;
}

static int offer_locked(struct vipl_stream *stream, void *memory, size_t bytes)
{
    VIP_MEM_ATTRIBUTES attributes = {NULL, VIP_FALSE, VIP_TRUE};
    uint8_t payload[VIPL_STREAM_OFFER_BYTES];
    struct vipl_iov piece = {payload, sizeof(payload)};
    int rc = refusal_locked(stream, bytes);
    if (rc != 0) {
        return rc;
    }
    if (VipRegisterMem(stream->nic->nic, memory, bytes, &attributes, &stream->offer_region) != VIP_SUCCESS) {
        return ENOMEM;
    }
    stream->offer_memory = memory;
    vipl_stream_offer_encode((struct vipl_stream_offer){(uintptr_t)memory, bytes, stream->offer_region},
                             payload);
    vipl_stream_post_locked(stream, VIPL_STREAM_RTS, &piece, 1, 0, sizeof(payload));
    return 0;
}

int vipl_stream_offer_begin(struct vipl_stream *stream, const void *memory, size_t bytes)
{
    vipl_mutex_lock(&stream->lock);
    int rc = offer_locked(stream, (void *)(uintptr_t)memory, bytes);
    vipl_mutex_unlock(&stream->lock);
    return rc;
}

int vipl_stream_offer_end(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->lock);
    vipl_stream_take_locked(stream);
    bool read = !stream->state.offering;
    void *memory = stream->offer_memory;
    stream->offer_memory = NULL;
    vipl_mutex_unlock(&stream->lock);
    if (!read) {
        vipl_stream_abort(stream);
    }
    if (memory != NULL) {
        VipDeregisterMem(stream->nic->nic, memory, stream->offer_region);
    }
    return read ? 0 : ECONNRESET;
}

/* Posts an RDMA Read, and waits for it. Sends before it are reaped on the way. */
static VIP_RETURN read_all(struct vipl_stream *stream, VIP_DESCRIPTOR *read)
{
    VIP_DESCRIPTOR *d = NULL;
    VIP_RETURN rc;
    vipl_stream_reap_locked(stream);
    rc = VipPostSend(stream->vi, read, stream->region);
    while (rc == VIP_SUCCESS && d != read) {
        rc = VipSendWait(stream->vi, VIP_INFINITE, &d);
        if (rc == VIP_INTERRUPTED) {
            rc = VIP_SUCCESS; /* a handler ran; the peer's memory is still being read */
        } else if (rc == VIP_SUCCESS && d != read) {
            stream->free_slots[stream->free_count++] = (uint8_t)(d - stream->sends);
            stream->unsent -= d->CS.SegCount > 0 ? d->DS[0].Local.Length : 0;
        }
    }
    return rc;
}

/* The first piece that has room; the others are for the next call. */
static struct vipl_iov first_piece(const struct vipl_iov *pieces, unsigned count)
{
    unsigned i = 0;
    while (i + 1 < count && pieces[i].len == 0) {
        i++;
    }
    return pieces[i];
}

int vipl_stream_read_locked(struct vipl_stream *stream, const struct vipl_iov *pieces, unsigned count,
                            size_t *received)
{
    struct vipl_iov to = first_piece(pieces, count);
    struct vipl_stream_offer *from = &stream->offered;
    VIP_MEM_ATTRIBUTES attributes = {NULL, VIP_FALSE, VIP_FALSE};
    VIP_DESCRIPTOR *d = stream->read;
    VIP_MEM_HANDLE region;
    size_t bytes = to.len < VIPL_STREAM_MAX_BYTES ? to.len : VIPL_STREAM_MAX_BYTES;
    bytes = bytes < from->length ? bytes : (size_t)from->length;
    if (VipRegisterMem(stream->nic->nic, to.base, bytes, &attributes, &region) != VIP_SUCCESS) {
        return ENOMEM;
    }
    *d = (VIP_DESCRIPTOR){.CS.Control = VIP_CONTROL_OP_RDMAREAD, .CS.SegCount = 2};
    d->DS[0].Remote.Data.AddressBits = from->address;
    d->DS[0].Remote.Handle = from->handle;
    d->DS[1].Local.Data.Address = to.base;
    d->DS[1].Local.Handle = region;
    d->DS[1].Local.Length = (VIP_UINT32)bytes;
    VIP_RETURN rc = read_all(stream, d);
    VipDeregisterMem(stream->nic->nic, to.base, region);
    if (rc != VIP_SUCCESS) {
        vipl_stream_lose_locked(stream, rc == VIP_DESCRIPTOR_ERROR ? NULL : "offered memory was not read");
        return ECONNRESET;
    }
    from->address += bytes;
    from->length -= bytes;
    *received = bytes;
    stream->state.has_read = from->length == 0;
    vipl_stream_flush_locked(stream);
    return 0;
}
