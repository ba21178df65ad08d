/* SPDX-License-Identifier: MIT */
/* Messages of vfio-user out of a channel. A message that is too long, or too short for its header,
 * ends the connection. */
#ifndef VFIO_USER_CHANNEL_H
#define VFIO_USER_CHANNEL_H

#include "base/framer.h"
#include "vfio_user/message.h"

/* A whole message. It lies in the channel's buffer and is valid until vipl_framer_next() is
 * called. */
struct vfu_message {
    struct vfu_header header;
    const uint8_t *payload;
    size_t bytes; /* of the payload */
};

/* Opens a channel for messages of vfio-user. The channel owns `fd`, also on failure. */
int vfu_channel_open(struct vipl_framer *channel, int fd);
/* Stores the next message in *out. EAGAIN: it has not arrived completely. Any other value: the
 * connection has ended. */
int vfu_channel_receive(struct vipl_framer *channel, struct vfu_message *out);

#endif
