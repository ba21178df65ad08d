/* SPDX-License-Identifier: MIT */
/* A pool of buffers, each for one Ethernet frame, named by index: an area without pointers. Buffers
 * that were never taken are never touched, so that they need no memory. */
#ifndef DEVICES_RNIC_EFE_FRAMES_H
#define DEVICES_RNIC_EFE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RNIC_NO_FRAME = 0xFFFFFFFF };

/* Stands in front of its buffers. */
struct rnic_frames {
    uint32_t count;
    uint32_t stride; /* bytes from one buffer to the next */
    uint32_t fresh;  /* buffers from this one on were never taken */
    /* the buffer given back last, which names the one before it; RNIC_NO_FRAME: the list is
     * empty */
    uint32_t given;
    uint32_t taken; /* buffers in use */
    uint32_t unused[11];
};

/* A multiple of 64; a frame of `mtu` bytes behind its Ethernet header and a VLAN's tag fits
 * each buffer. */
size_t rnic_frames_bytes(uint32_t count, uint32_t mtu);
/* `frames`: rnic_frames_bytes() zeroed bytes, aligned to 64. */
void rnic_frames_init(struct rnic_frames *frames, uint32_t count, uint32_t mtu);
/* RNIC_NO_FRAME: all are in use. */
uint32_t rnic_frames_take(struct rnic_frames *frames);
void rnic_frames_give(struct rnic_frames *frames, uint32_t index);
uint8_t *rnic_frames_at(struct rnic_frames *frames, uint32_t index);
/* Turns a pool that a CPU of the other byte order has saved into one of this CPU. Returns false
 * if it is not such a pool. */
bool rnic_frames_swap(struct rnic_frames *frames, uint32_t count, uint32_t mtu);

#endif
