/* SPDX-License-Identifier: MIT */
/* What goes: messages of the program's bytes, and those of the protocol. */
#include <errno.h>

#include "stream/endpoint.h"

void vipl_stream_reap_locked(struct vipl_stream *stream)
{
    VIP_DESCRIPTOR *d;
    while (stream->free_count < VIPL_STREAM_SEND_SLOTS) {
        VIP_RETURN rc = VipSendDone(stream->vi, &d);
        if (rc != VIP_SUCCESS && rc != VIP_DESCRIPTOR_ERROR) {
            return;
        }
        if (d == stream->read) { /* which has failed, with the connection */
            continue;
        }
        stream->free_slots[stream->free_count++] = (uint8_t)(d - stream->sends);
        stream->unsent -= d->CS.SegCount > 0 ? d->DS[0].Local.Length : 0;
    }
}

bool vipl_stream_can_send_locked(struct vipl_stream *stream, enum vipl_stream_message type)
{
    if (stream->free_count == 0) {
        vipl_stream_reap_locked(stream);
    }
    return stream->free_count > 0 && !stream->lost && vipl_stream_may_send(&stream->state, type);
}

static char *buffer_of_send(const struct vipl_stream *stream, uint8_t slot)
{
    size_t buffers = (size_t)((char *)(stream->read + 1) - stream->memory + 4095) / 4096 * 4096;
    return stream->memory + buffers + (size_t)(VIPL_STREAM_MESSAGES + slot) * VIPL_STREAM_MESSAGE_BYTES;
}

/* Posts a send whose bytes are in its buffer. */
static void post_slot_locked(struct vipl_stream *stream, enum vipl_stream_message type, uint8_t slot,
                             size_t bytes)
{
    VIP_DESCRIPTOR *d = &stream->sends[slot];
    *d = (VIP_DESCRIPTOR){.CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE,
                          .CS.SegCount = bytes > 0,
                          .CS.ImmediateData = vipl_stream_on_send(&stream->state, type)};
    d->DS[0].Local.Data.Address = buffer_of_send(stream, slot);
    d->DS[0].Local.Handle = stream->region;
    d->DS[0].Local.Length = (VIP_UINT32)bytes;
    stream->unsent += bytes;
    stream->sent += type == VIPL_STREAM_DATA ? 1 : 0;
    if (VipPostSend(stream->vi, d, stream->region) != VIP_SUCCESS) {
        stream->unsent -= bytes;
        stream->free_slots[stream->free_count++] = slot;
        vipl_stream_lose_locked(stream, NULL);
    }
}

void vipl_stream_post_locked(struct vipl_stream *stream, enum vipl_stream_message type,
                             const struct vipl_iov *pieces, unsigned count, size_t offset, size_t bytes)
{
    uint8_t slot = stream->free_slots[--stream->free_count];
    vipl_stream_gather(buffer_of_send(stream, slot), pieces, count, offset, bytes);
    post_slot_locked(stream, type, slot, bytes);
}

void vipl_stream_push_locked(struct vipl_stream *stream)
{
    if (stream->held > 0 && !stream->lost && vipl_stream_may_send(&stream->state, VIPL_STREAM_DATA)) {
        size_t bytes = stream->held;
        stream->held = 0;
        stream->state.holding = false;
        post_slot_locked(stream, VIPL_STREAM_DATA, stream->held_slot, bytes);
    }
}

/* Adds bytes to those that wait for more. */
static void hold_locked(struct vipl_stream *stream, const struct vipl_iov *pieces, unsigned count,
                        size_t offset, size_t bytes)
{
    if (stream->held == 0) {
        stream->held_slot = stream->free_slots[--stream->free_count];
        stream->state.holding = true;
        stream->held_lately = true;
        vipl_stream_attend_locked(stream);
    }
    vipl_stream_gather(buffer_of_send(stream, stream->held_slot) + stream->held, pieces, count, offset,
                       bytes);
    stream->held += bytes;
}

void vipl_stream_flush_locked(struct vipl_stream *stream)
{
    if (!stream->holds_on || stream->state.finishing || stream->state.closing) {
        vipl_stream_push_locked(stream);
    }
    enum vipl_stream_message type = vipl_stream_due(&stream->state);
    while (type != 0 && vipl_stream_can_send_locked(stream, type)) {
        vipl_stream_post_locked(stream, type, NULL, 0, 0, 0);
        type = vipl_stream_due(&stream->state);
    }
}

/* Sends a part of the pieces, or has it wait for more. Returns its bytes. */
static size_t send_part_locked(struct vipl_stream *stream, const struct vipl_iov *pieces, unsigned count,
                               size_t offset, size_t bytes)
{
    size_t most = stream->state.peer.bytes < VIPL_STREAM_MESSAGE_BYTES ? stream->state.peer.bytes
                                                                       : VIPL_STREAM_MESSAGE_BYTES;
    size_t room = most - stream->held;
    size_t part = bytes < room ? bytes : room;
    if (stream->held == 0 && (part == room || !stream->holds_on)) {
        vipl_stream_post_locked(stream, VIPL_STREAM_DATA, pieces, count, offset, part);
        return part;
    }
    hold_locked(stream, pieces, count, offset, part);
    if (part == room || !stream->holds_on) {
        vipl_stream_push_locked(stream);
    }
    return part;
}

static int send_locked(struct vipl_stream *stream, const struct vipl_iov *pieces, unsigned count,
                       size_t *sent)
{
    size_t bytes = vipl_stream_length(pieces, count);
    if (stream->state.credits <= VIPL_STREAM_MESSAGES / 2) {
        vipl_stream_take_locked(stream);
    }
    if (stream->state.finishing || vipl_stream_is_aborted(stream) || stream->state.close_received ||
        (stream->lost && stream->state.fin_received)) {
        return EPIPE;
    }
    if (stream->lost) {
        return ECONNRESET;
    }
    while (*sent < bytes && stream->begun && vipl_stream_can_send_locked(stream, VIPL_STREAM_DATA)) {
        *sent += send_part_locked(stream, pieces, count, *sent, bytes - *sent);
    }
    stream->wants_room = stream->wants_room || *sent < bytes;
    return *sent > 0 || bytes == 0 ? 0 : stream->lost ? ECONNRESET : EAGAIN;
}

int vipl_stream_send(struct vipl_stream *stream, const struct vipl_iov *pieces, unsigned count, size_t *sent)
{
    *sent = 0;
    vipl_mutex_lock(&stream->lock);
    stream->holds_on = false;
    int rc = send_locked(stream, pieces, count, sent);
    vipl_mutex_unlock(&stream->lock);
    return rc;
}

int vipl_stream_send_more(struct vipl_stream *stream, const struct vipl_iov *pieces, unsigned count,
                          size_t *sent)
{
    *sent = 0;
    vipl_mutex_lock(&stream->lock);
    stream->holds_on = true;
    int rc = send_locked(stream, pieces, count, sent);
    vipl_mutex_unlock(&stream->lock);
    return rc;
}

void vipl_stream_push(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->lock);
    stream->holds_on = false;
    vipl_stream_push_locked(stream);
    vipl_mutex_unlock(&stream->lock);
}

void vipl_stream_finish(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->lock);
    stream->state.finishing = true;
    if (stream->begun) {
        vipl_stream_take_locked(stream);
        vipl_stream_flush_locked(stream);
    }
    vipl_stream_attend_locked(stream);
    vipl_stream_notify_locked(stream);
    vipl_mutex_unlock(&stream->lock);
}
