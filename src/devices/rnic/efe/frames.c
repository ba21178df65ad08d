/* SPDX-License-Identifier: MIT */
/* The pool of frame buffers. */
#include "devices/rnic/efe/frames.h"

#include <string.h>

/* Ethernet's header has 14 bytes and EFE's 48: with two bytes in front, the payload begins at a
 * multiple of 64. */
enum { PAD_BYTES = 2, ETHERNET_BYTES = 14, TAG_BYTES = 4, LINE_BYTES = 64 };

static uint32_t frames_stride(uint32_t mtu)
{
    return (PAD_BYTES + ETHERNET_BYTES + TAG_BYTES + mtu + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

static uint8_t *frames_buffer(struct rnic_frames *frames, uint32_t index)
{
    return (uint8_t *)(frames + 1) + (size_t)index * frames->stride;
}

size_t rnic_frames_bytes(uint32_t count, uint32_t mtu)
{
    return sizeof(struct rnic_frames) + (size_t)count * frames_stride(mtu);
}

void rnic_frames_init(struct rnic_frames *frames, uint32_t count, uint32_t mtu)
{
    *frames = (struct rnic_frames){.count = count, .stride = frames_stride(mtu), .given = RNIC_NO_FRAME};
}

uint32_t rnic_frames_take(struct rnic_frames *frames)
{
    uint32_t index = frames->given;
    if (index != RNIC_NO_FRAME) {
        memcpy(&frames->given, frames_buffer(frames, index), sizeof frames->given);
    } else if (frames->fresh < frames->count) {
        index = frames->fresh++;
    } else {
        return RNIC_NO_FRAME;
    }
    frames->taken++;
    return index;
}

void rnic_frames_give(struct rnic_frames *frames, uint32_t index)
{
    memcpy(frames_buffer(frames, index), &frames->given, sizeof frames->given);
    frames->given = index;
    frames->taken--;
}

uint8_t *rnic_frames_at(struct rnic_frames *frames, uint32_t index)
{
    return frames_buffer(frames, index) + PAD_BYTES;
}
