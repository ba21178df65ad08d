/* SPDX-License-Identifier: MIT */
/* Where a message of vfio-user ends, by its header. */
#include "vfio_user/channel.h"

#include <errno.h>

enum { MAX_KEPT = 4 * VFU_MAX_BYTES };

int vfu_channel_open(struct vipl_framer *channel, int fd)
{
    return vipl_framer_open(channel, fd, VFU_MAX_BYTES, MAX_KEPT);
}

int vfu_channel_receive(struct vipl_framer *channel, struct vfu_message *out)
{
    int error = vipl_framer_fill(channel, VFU_HEADER_BYTES);
    if (error != 0) {
        return error;
    }
    vfu_header_read(channel->in, &out->header);
    if (out->header.bytes < VFU_HEADER_BYTES || out->header.bytes > VFU_MAX_BYTES) {
        return EPROTO;
    }
    out->payload = channel->in + VFU_HEADER_BYTES;
    out->bytes = out->header.bytes - VFU_HEADER_BYTES;
    return vipl_framer_fill(channel, out->header.bytes);
}
