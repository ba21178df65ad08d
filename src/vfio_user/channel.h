/* SPDX-License-Identifier: MIT */
/*
 * One end of a vfio-user connection: whole messages out of a stream of bytes, with their
 * descriptors, and into it. The peer is not trusted: a message that is too long, or too short for
 * its header, ends the connection.
 *
 * One thread at a time.
 */
#ifndef VFIO_USER_CHANNEL_H
#define VFIO_USER_CHANNEL_H

#include "os/os.h"
#include "vfio_user/message.h"

struct vfu_channel {
    int fd;      /* -1: closed */
    uint8_t *in; /* VFU_MAX_BYTES for the message that is being received, allocated */
    size_t received;
    int fds[VFU_MAX_FDS]; /* that came with it; a caller that keeps one puts -1 in its place */
    unsigned fd_count;
    uint8_t *out; /* what could not be sent yet, allocated when that happens */
    size_t out_bytes;
    size_t out_room;
};

/* A whole message, in the channel's buffer until the next call of vfu_channel_next(). */
struct vfu_message {
    struct vfu_header header;
    const uint8_t *payload;
    size_t bytes; /* of the payload */
};

/* Takes the descriptor, also if it fails. */
int vfu_channel_open(struct vfu_channel *channel, int fd);
void vfu_channel_close(struct vfu_channel *channel);

/* 0: the next message. EAGAIN: it is not there yet. Any other: the connection is over. */
int vfu_channel_receive(struct vfu_channel *channel, struct vfu_message *out);
/* The message has been dealt with; the descriptors that came with it and were not kept are
 * closed. */
void vfu_channel_next(struct vfu_channel *channel);

/*
 * Sends a whole message, `data` behind the rest; what the socket does not take is kept. Descriptors
 * go with the first byte, while nothing is kept. Not 0: the connection is over; ENOBUFS: the peer
 * does not take what it is sent.
 */
int vfu_channel_send(struct vfu_channel *channel, const void *bytes, size_t length, const void *data,
                     size_t data_bytes, const int *pass, unsigned count);
/* Sends what was kept. EAGAIN: not all of it. */
int vfu_channel_flush(struct vfu_channel *channel);

#endif
