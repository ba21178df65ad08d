/* SPDX-License-Identifier: MIT */
/*
 * An index: where the packets of a recording are, and how long after one another they came. The CPU
 * reads a recording once to make it, and never looks at a packet afterwards: the packet may be in
 * the memory of a device.
 *
 * In memory and in a file an index is the same: a head, and an entry of 16 bytes per packet. All
 * numbers are little-endian.
 *
 *   head:  0 "VIPLDMIX"   8 version (4)   12 longest packet (4)   16 entries   24 packets
 *         32 bytes of the store   40 identity of the store   48 time from first to last packet
 *         56 packets left out   64 packets without their last bytes   72 to 127: zeros
 *   entry: 0 offset   8 length, bit 31: the recording has not all bytes (4)   12 gap before it (4)
 *          length 0: no packet, a pause of `offset` nanoseconds
 */
#ifndef VIPL_DM_INDEX_H
#define VIPL_DM_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "dm/bytes.h"
#include "dm/recording.h"
#include "dm/store.h"

#define DM_INDEX_HEAD_BYTES 128U
#define DM_INDEX_ENTRY_BYTES 16U
#define DM_INDEX_PARTIAL UINT32_C(0x80000000)
/* Shorter packets have no header of Ethernet: no port sends them. */
#define DM_MIN_PACKET UINT32_C(14)

struct dm_entry {
    uint64_t offset; /* of the packet in the store, or nanoseconds */
    uint32_t bytes;  /* 0: a pause */
    uint32_t gap;    /* nanoseconds */
    bool is_partial;
};

/* Does not change once it is made. */
struct dm_index {
    uint8_t *all;   /* the head and the entries */
    uint64_t room;  /* bytes of `all` */
    bool is_mapped; /* `all` is a mapping of a file */
    uint64_t entries;
    uint64_t packets;
    uint64_t store_bytes;
    uint64_t identity;
    uint64_t span;     /* nanoseconds from the first packet to the last */
    uint64_t left_out; /* packets that no port sends */
    uint64_t partial;
    uint32_t longest;
    bool is_cut; /* the recording ends inside a packet; not in the file */
};

static inline void dm_index_get(const struct dm_index *index, uint64_t number, struct dm_entry *entry)
{
    const uint8_t *at = index->all + DM_INDEX_HEAD_BYTES + number * DM_INDEX_ENTRY_BYTES;
    uint32_t length = dm_get32(at + 8, false);

    entry->offset = dm_get(at, 8, false);
    entry->bytes = length & ~DM_INDEX_PARTIAL;
    entry->is_partial = (length & DM_INDEX_PARTIAL) != 0;
    entry->gap = dm_get32(at + 12, false);
}

/* Reads a recording. 0, or an errno value and why. */
int dm_index_make(const struct dm_source *source, uint64_t identity, struct dm_index *index,
                  struct vipl_dm_reason *reason);

/* The index of a file of `bytes` bytes at `all`, as far as its head says. dm_index_check() looks at
 * the entries. */
int dm_index_read(uint8_t *all, uint64_t bytes, struct dm_index *index, struct vipl_dm_reason *reason);
/* Whether the entries are in order, and inside the store. */
int dm_index_check(const struct dm_index *index, struct vipl_dm_reason *reason);

/* Files; index_file.c. Loading refuses the index of another store. */
int dm_index_save(const struct dm_index *index, const char *path, struct vipl_dm_reason *reason);
int dm_index_load(const char *path, const struct dm_store *store, struct dm_index *index,
                  struct vipl_dm_reason *reason);

void dm_index_free(struct dm_index *index);

#endif
