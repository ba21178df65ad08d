/* SPDX-License-Identifier: MIT */
/*
 * One end of a vfio-user connection, which receives and sends whole messages with their descriptors
 * over a stream of bytes. The peer is not trusted: a message that is too long, or too short for its
 * header, ends the connection.
 *
 * One thread at a time may use a channel.
 */
#ifndef VFIO_USER_CHANNEL_H
#define VFIO_USER_CHANNEL_H

#include "os/os.h"
#include "vfio_user/message.h"

struct vfu_channel {
    int fd;      /* -1: closed */
    uint8_t *in; /* VFU_MAX_BYTES for the message that is being received, allocated */
    size_t received;
    /* received with the message; a caller that keeps a descriptor stores -1 in its place */
    int fds[VFU_MAX_FDS];
    unsigned fd_count;
    uint8_t *out; /* bytes that could not be sent yet; allocated when needed */
    size_t out_bytes;
    size_t out_room;
};

/* A whole message. It lies in the channel's buffer and is valid until vfu_channel_next() is
 * called. */
struct vfu_message {
    struct vfu_header header;
    const uint8_t *payload;
    size_t bytes; /* of the payload */
};

/* Opens a channel on the socket `fd`, which the channel owns, also on failure. */
int vfu_channel_open(struct vfu_channel *channel, int fd);
void vfu_channel_close(struct vfu_channel *channel);

/* Stores the next message in *out. EAGAIN: it has not arrived completely. Any other value: the
 * connection has ended. */
int vfu_channel_receive(struct vfu_channel *channel, struct vfu_message *out);
/* Releases the message, and closes its descriptors that the caller has not kept. */
void vfu_channel_next(struct vfu_channel *channel);

/*
 * Sends a whole message: `bytes`, then `data`. Bytes that the socket does not take are kept for
 * vfu_channel_flush(). Descriptors are sent with the first byte, and only while no bytes are kept.
 * On an error the connection has ended. ENOBUFS: the peer does not read.
 */
int vfu_channel_send(struct vfu_channel *channel, const void *bytes, size_t length, const void *data,
                     size_t data_bytes, const int *pass, unsigned count);
/* Sends the kept bytes. EAGAIN: some of them are still kept. */
int vfu_channel_flush(struct vfu_channel *channel);

#endif
