/* SPDX-License-Identifier: MIT */
/* Messages out of a stream and into it. The header is received alone, so that descriptors come with
 * the message they belong to. */
#include "vfio_user/channel.h"

#include <errno.h>
#include <string.h>

enum { MAX_KEPT = 4 * VFU_MAX_BYTES };

int vfu_channel_open(struct vfu_channel *channel, int fd)
{
    *channel = (struct vfu_channel){.fd = fd, .in = vipl_alloc(VFU_MAX_BYTES)};
    if (channel->in == NULL) {
        vfu_channel_close(channel);
        return ENOMEM;
    }
    return 0;
}

static void close_fds(struct vfu_channel *channel)
{
    for (unsigned i = 0; i < channel->fd_count; i++) {
        vipl_fd_close(channel->fds[i]);
    }
    channel->fd_count = 0;
}

void vfu_channel_close(struct vfu_channel *channel)
{
    close_fds(channel);
    vipl_fd_close(channel->fd);
    vipl_free(channel->in);
    vipl_free(channel->out);
    *channel = (struct vfu_channel){.fd = -1};
}

/* Receives until `wanted` bytes of the message are there. */
static int receive_until(struct vfu_channel *channel, size_t wanted)
{
    while (channel->received < wanted) {
        size_t length = 0;
        unsigned count = 0;
        int error = vipl_unix_receive(channel->fd, channel->in + channel->received,
                                      wanted - channel->received, &length, channel->fds + channel->fd_count,
                                      VFU_MAX_FDS - channel->fd_count, &count);
        channel->fd_count += count;
        if (error != 0 || length == 0) {
            return error == 0 ? EPIPE : error;
        }
        channel->received += length;
    }
    return 0;
}

int vfu_channel_receive(struct vfu_channel *channel, struct vfu_message *out)
{
    int error = receive_until(channel, VFU_HEADER_BYTES);
    if (error != 0) {
        return error;
    }
    vfu_header_read(channel->in, &out->header);
    if (out->header.bytes < VFU_HEADER_BYTES || out->header.bytes > VFU_MAX_BYTES) {
        return EPROTO;
    }
    out->payload = channel->in + VFU_HEADER_BYTES;
    out->bytes = out->header.bytes - VFU_HEADER_BYTES;
    return receive_until(channel, out->header.bytes);
}

void vfu_channel_next(struct vfu_channel *channel)
{
    close_fds(channel);
    channel->received = 0;
}

static bool make_room(struct vfu_channel *channel, size_t more)
{
    size_t needed = channel->out_bytes + more;
    if (needed <= channel->out_room) {
        return true;
    }
    uint8_t *room = needed > MAX_KEPT ? NULL : vipl_alloc(MAX_KEPT);
    if (room == NULL) {
        return false;
    }
    channel->out = room; /* the first time: there was none */
    channel->out_room = MAX_KEPT;
    return true;
}

static void keep_bytes(struct vfu_channel *channel, const void *bytes, size_t length)
{
    if (length > 0) {
        memcpy(channel->out + channel->out_bytes, bytes, length);
        channel->out_bytes += length;
    }
}

/* Sends one piece, or the first part of it. */
static int send_piece(struct vfu_channel *channel, const void *bytes, size_t length, const int *pass,
                      unsigned count, size_t *sent)
{
    int error = channel->out_bytes > 0 || length == 0
                    ? EAGAIN
                    : vipl_unix_send(channel->fd, bytes, length, pass, count, sent);
    return error == EAGAIN ? 0 : error;
}

int vfu_channel_send(struct vfu_channel *channel, const void *bytes, size_t length, const void *data,
                     size_t data_bytes, const int *pass, unsigned count)
{
    size_t sent = 0;
    size_t data_sent = 0;
    if (count > 0 && channel->out_bytes > 0) {
        return ENOBUFS;
    }
    int error = send_piece(channel, bytes, length, pass, count, &sent);
    if (error == 0 && sent == length) {
        error = send_piece(channel, data, data_bytes, NULL, 0, &data_sent);
    }
    size_t left = length - sent + data_bytes - data_sent;
    if (error != 0 || left == 0) {
        return error;
    }
    if ((count > 0 && sent == 0) || !make_room(channel, left)) {
        /* a descriptor cannot be kept; it would not be the peer's any more when it is sent */
        return ENOBUFS;
    }
    keep_bytes(channel, (const char *)bytes + sent, length - sent);
    keep_bytes(channel, (const char *)data + data_sent, data_bytes - data_sent);
    return 0;
}

int vfu_channel_flush(struct vfu_channel *channel)
{
    size_t done = 0;
    int error = 0;
    while (error == 0 && done < channel->out_bytes) {
        size_t sent = 0;
        error = vipl_unix_send(channel->fd, channel->out + done, channel->out_bytes - done, NULL, 0, &sent);
        done += sent;
    }
    channel->out_bytes -= done;
    if (done > 0 && channel->out_bytes > 0) {
        memmove(channel->out, channel->out + done, channel->out_bytes);
    }
    return error;
}
