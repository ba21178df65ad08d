/* SPDX-License-Identifier: MIT */
/* The pool of frame buffers. */
#include "devices/rnic/efe/frames.h"

#include <string.h>

#include "devices/rnic/efe/layout.h"

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

/* The frames themselves are bytes; the list of buffers given back is in these. */
bool rnic_frames_swap(struct rnic_frames *frames, uint32_t count, uint32_t mtu)
{
    if (rnic_layout_frames.bytes != sizeof(*frames)) {
        return false;
    }
    rnic_layout_swap(&rnic_layout_frames, frames, 1);
    if (frames->count != count || frames->stride != frames_stride(mtu)) {
        return false;
    }
    uint32_t index = frames->given;
    for (uint32_t i = 0; index != RNIC_NO_FRAME; i++) {
        if (index >= count || i == count) {
            return false;
        }
        rnic_layout_swap_numbers(frames_buffer(frames, index), 1, sizeof(index));
        memcpy(&index, frames_buffer(frames, index), sizeof(index));
    }
    return true;
}
