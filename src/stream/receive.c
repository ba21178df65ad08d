/* SPDX-License-Identifier: MIT */
/* What comes: taking messages, and receiving their bytes. */
#include <errno.h>
#include <string.h>

#include "stream/endpoint.h"

static char *buffer_of(const struct vipl_stream *stream, uint32_t slot)
{
    return (char *)stream->receives[slot].DS[0].Local.Data.Address;
}

void vipl_stream_post_receive_locked(struct vipl_stream *stream, uint32_t slot)
{
    VIP_DESCRIPTOR *d = &stream->receives[slot];
    size_t buffers = (size_t)((char *)(stream->read + 1) - stream->memory + 4095) / 4096 * 4096;
    *d = (VIP_DESCRIPTOR){.CS.SegCount = 1};
    d->DS[0].Local.Data.Address = stream->memory + buffers + (size_t)slot * VIPL_STREAM_MESSAGE_BYTES;
    d->DS[0].Local.Handle = stream->region;
    d->DS[0].Local.Length = VIPL_STREAM_MESSAGE_BYTES;
    if (VipPostRecv(stream->vi, d, stream->region) != VIP_SUCCESS) {
        stream->lost = true; /* the VI is in the error state, which its other receives tell */
    }
}

static void repost(struct vipl_stream *stream, uint32_t slot)
{
    vipl_stream_post_receive_locked(stream, slot);
    vipl_stream_on_repost(&stream->state);
}

/* Returns true if the program has something new to look at. */
static bool take_completed(struct vipl_stream *stream, const VIP_DESCRIPTOR *d)
{
    uint32_t slot = (uint32_t)(d - stream->receives);
    uint32_t bytes = d->CS.Length;
    uint32_t immediate = (d->CS.Status & VIP_STATUS_IMMEDIATE) != 0 ? d->CS.ImmediateData : 0;
    enum vipl_stream_message type = vipl_stream_on_message(&stream->state, immediate, bytes);
    if (type == VIPL_STREAM_RTS &&
        !vipl_stream_offer_decode((const uint8_t *)buffer_of(stream, slot), &stream->offered)) {
        type = (enum vipl_stream_message)0;
    }
    if (type == 0) {
        vipl_stream_lose_locked(stream, "the peer has sent what no peer may send");
        return true;
    }
    if (type == VIPL_STREAM_DATA && stream->stopped && stream->state.finishing) {
        VipDisconnect(stream->vi); /* this end does nothing more, and the peer is to know */
        vipl_stream_lose_locked(stream, NULL);
        return true;
    }
    if (type == VIPL_STREAM_DATA && !stream->state.closing) {
        stream->peer_began = stream->peer_began || (stream->last == 0 && stream->sent == 0);
        stream->filled[stream->last++ % VIPL_STREAM_MESSAGES] = (struct vipl_stream_filled){slot, bytes};
    } else {
        repost(stream, slot);
    }
    return type != VIPL_STREAM_CREDIT && type != VIPL_STREAM_ACK;
}

void vipl_stream_take_locked(struct vipl_stream *stream)
{
    bool any = false;
    bool news = false;
    while (stream->begun && !stream->lost) {
        VIP_DESCRIPTOR *d;
        VIP_RETURN rc = VipRecvDone(stream->vi, &d);
        if (rc == VIP_NOT_DONE) {
            break;
        }
        any = true;
        if (rc == VIP_SUCCESS) {
            news = take_completed(stream, d) || news;
        } else {
            vipl_stream_lose_locked(stream, NULL);
        }
    }
    stream->arrivals += news ? 1 : 0;
    if (any) {
        vipl_stream_flush_locked(stream);
        if (stream->wants_room && vipl_stream_can_send_locked(stream, VIPL_STREAM_DATA)) {
            stream->wants_room = false;
            stream->rooms++;
        }
        vipl_stream_notify_locked(stream);
    }
}

/* Copies what has come. Returns the bytes. */
static size_t copy_filled(struct vipl_stream *stream, const struct vipl_iov *pieces, unsigned count,
                          size_t room, bool peek)
{
    size_t done = 0;
    uint32_t at = stream->first;
    uint32_t used = stream->used;
    while (at != stream->last && done < room) {
        struct vipl_stream_filled message = stream->filled[at % VIPL_STREAM_MESSAGES];
        size_t part = message.bytes - used < room - done ? message.bytes - used : room - done;
        vipl_stream_scatter(pieces, count, done, buffer_of(stream, message.slot) + used, part);
        done += part;
        used += (uint32_t)part;
        if (used < message.bytes) {
            break;
        }
        used = 0;
        at++;
        if (!peek && !stream->lost) {
            repost(stream, message.slot);
        }
    }
    if (!peek) {
        stream->first = at;
        stream->used = used;
    }
    return done;
}

static int receive_locked(struct vipl_stream *stream, const struct vipl_iov *pieces, unsigned count,
                          bool peek, size_t *received)
{
    size_t room = vipl_stream_length(pieces, count);
    if (stream->first == stream->last) {
        vipl_stream_take_locked(stream);
    }
    *received = copy_filled(stream, pieces, count, room, peek);
    if (*received > 0) {
        vipl_stream_flush_locked(stream);
    }
    if (*received > 0 || room == 0) {
        return 0;
    }
    if (vipl_stream_is_aborted(stream)) {
        return ECONNABORTED;
    }
    if (stream->offered.length > 0 && !stream->lost) {
        return peek ? EAGAIN : vipl_stream_read_locked(stream, pieces, count, received);
    }
    if (stream->state.fin_received || (stream->stopped && !stream->lost)) {
        return 0;
    }
    return stream->lost ? ECONNRESET : EAGAIN;
}

int vipl_stream_receive(struct vipl_stream *stream, const struct vipl_iov *pieces, unsigned count, bool peek,
                        size_t *received)
{
    vipl_mutex_lock(&stream->lock);
    int rc = receive_locked(stream, pieces, count, peek, received);
    vipl_mutex_unlock(&stream->lock);
    return rc;
}

size_t vipl_stream_pending(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->lock);
    vipl_stream_take_locked(stream);
    size_t bytes = (size_t)stream->offered.length;
    for (uint32_t at = stream->first; at != stream->last; at++) {
        bytes += stream->filled[at % VIPL_STREAM_MESSAGES].bytes;
    }
    bytes -= stream->used;
    vipl_mutex_unlock(&stream->lock);
    return bytes;
}
