/* SPDX-License-Identifier: MIT */
/*
 * A slot of memory for a packet is one block of a pcapng file, shifted: what a port writes and what
 * the CPU adds is the file, which a store takes as it is.
 *
 *   slot of the file                                      the next slot of the file
 *   |0       92      100        128          128 + packet |0       92      100
 *   | filler | end   | header   | packet     | filler --->| filler | end   | header ...
 *   |        | 8     | 28 bytes |            |            |        | 8     |
 *   | of the block before       | a block of as many bytes as a slot has  |
 *
 * The filler is a custom option, which readers skip. The end, an empty option and the length of the
 * block, is the same in every slot, and is written once. So is that of the interface's description,
 * whose block has the length of a slot, too: it ends in the first slot of the file. A store is in
 * the byte order of this machine, as pcapng allows.
 */
#ifndef VIPL_DM_SLOT_H
#define VIPL_DM_SLOT_H

#include <stdint.h>

#include "dm/port.h"

#define DM_SLOT_HEADROOM 128U
#define DM_SLOT_BLOCK 100U /* where a slot's block begins */
#define DM_SLOT_END 92U    /* where the end of the block before is */
#define DM_SLOT_UNIT 512U  /* a slot is a multiple of it */
#define DM_BLOCK_HEAD 28U  /* of an enhanced packet block */
#define DM_MAX_SNAPLEN 65400U

/* Bytes of a slot for packets of at most `snaplen` bytes. */
uint32_t dm_slot_bytes(uint32_t snaplen);

/* Writes what does not change. */
void dm_slot_prepare(uint8_t *slot, uint32_t slot_bytes);

/* Makes a block of the packet that is in the slot. */
void dm_slot_fill(uint8_t *slot, uint32_t slot_bytes, const struct dm_arrival *arrival);

/* Moves the packet of a slot to `to`, as a block without a filler. `to` may overlap the slot if it
 * is before it. Returns the block's bytes. */
uint32_t dm_slot_compact(const uint8_t *slot, const struct dm_arrival *arrival, uint8_t *to);

#endif
