/* SPDX-License-Identifier: MIT */
/* Making and checking an index; see index.h. */
#include "dm/index.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "dm/reason.h"

#define INDEX_VERSION 1U
static const char index_magic[8] = {'V', 'I', 'P', 'L', 'D', 'M', 'I', 'X'};

/* What the reading of a recording has come to. */
struct progress {
    uint64_t first; /* the time of the first packet */
    uint64_t sum;   /* of all gaps so far */
};

static bool add_entry(struct dm_index *index, uint64_t offset, uint32_t length, uint32_t gap)
{
    uint64_t used = DM_INDEX_HEAD_BYTES + index->entries * DM_INDEX_ENTRY_BYTES;

    if (used + DM_INDEX_ENTRY_BYTES > index->room) {
        uint64_t room = index->room * 2;
        uint8_t *all = room > SIZE_MAX ? NULL : realloc(index->all, (size_t)room);
        if (all == NULL) {
            return false;
        }
        index->all = all;
        index->room = room;
    }
    dm_put_little(index->all + used, offset, 8);
    dm_put_little(index->all + used + 8, length, 4);
    dm_put_little(index->all + used + 12, gap, 4);
    index->entries++;
    return true;
}

/* A time before that of the packet before counts as the same time: the sum of the gaps is the time
 * since the first packet again as soon as times go on. */
static bool add_packet(struct dm_index *index, struct progress *progress, const struct dm_recorded *packet)
{
    uint64_t since;
    uint64_t gap;
    bool is_partial = packet->bytes < packet->original;

    if (packet->bytes < DM_MIN_PACKET) {
        index->left_out++;
        return true;
    }
    if (index->packets == 0) {
        progress->first = packet->time;
    }
    since = packet->time > progress->first ? packet->time - progress->first : 0;
    gap = since > progress->sum ? since - progress->sum : 0;
    progress->sum += gap;
    if (gap > UINT32_MAX) {
        if (!add_entry(index, gap, 0, 0)) {
            return false;
        }
        gap = 0;
    }
    index->packets++;
    index->partial += is_partial ? 1 : 0;
    index->longest = packet->bytes > index->longest ? packet->bytes : index->longest;
    return add_entry(index, packet->offset, packet->bytes | (is_partial ? DM_INDEX_PARTIAL : 0),
                     (uint32_t)gap);
}

static void write_head(struct dm_index *index)
{
    uint8_t *head = index->all;

    memset(head, 0, DM_INDEX_HEAD_BYTES);
    memcpy(head, index_magic, sizeof(index_magic));
    dm_put_little(head + 8, INDEX_VERSION, 4);
    dm_put_little(head + 12, index->longest, 4);
    dm_put_little(head + 16, index->entries, 8);
    dm_put_little(head + 24, index->packets, 8);
    dm_put_little(head + 32, index->store_bytes, 8);
    dm_put_little(head + 40, index->identity, 8);
    dm_put_little(head + 48, index->span, 8);
    dm_put_little(head + 56, index->left_out, 8);
    dm_put_little(head + 64, index->partial, 8);
}

static int read_packets(struct dm_recording *recording, struct dm_index *index, struct vipl_dm_reason *reason)
{
    struct progress progress = {0, 0};
    struct dm_recorded packet;
    int error;

    while ((error = dm_recording_next(recording, &packet, reason)) == 0) {
        if (!add_packet(index, &progress, &packet)) {
            return dm_fail(reason, ENOMEM, "no memory for an index of more than %" PRIu64 " packets",
                           index->packets);
        }
    }
    if (error != ENODATA) {
        return error;
    }
    index->span = progress.sum;
    index->is_cut = recording->is_cut;
    return 0;
}

int dm_index_make(const struct dm_source *source, uint64_t identity, struct dm_index *index,
                  struct vipl_dm_reason *reason)
{
    struct dm_recording *recording = malloc(sizeof(*recording));
    int error = ENOMEM;

    memset(index, 0, sizeof(*index));
    index->room = 4096;
    index->all = malloc(4096);
    if (recording == NULL || index->all == NULL) {
        dm_fail(reason, ENOMEM, "no memory for an index");
        goto free_both;
    }
    error = dm_recording_open(recording, source, reason);
    if (error != 0) {
        goto free_both;
    }
    index->store_bytes = source->bytes;
    index->identity = identity;
    error = read_packets(recording, index, reason);
    dm_recording_close(recording);
    if (error == 0) {
        write_head(index);
        free(recording);
        return 0;
    }
free_both:
    free(recording);
    dm_index_free(index);
    return error;
}

int dm_index_read(uint8_t *all, uint64_t bytes, struct dm_index *index, struct vipl_dm_reason *reason)
{
    memset(index, 0, sizeof(*index));
    if (bytes < DM_INDEX_HEAD_BYTES || memcmp(all, index_magic, sizeof(index_magic)) != 0 ||
        dm_get32(all + 8, false) != INDEX_VERSION) {
        return dm_fail(reason, EINVAL, "the file is not an index of this version");
    }
    index->all = all;
    index->room = bytes;
    index->longest = dm_get32(all + 12, false);
    index->entries = dm_get(all + 16, 8, false);
    index->packets = dm_get(all + 24, 8, false);
    index->store_bytes = dm_get(all + 32, 8, false);
    index->identity = dm_get(all + 40, 8, false);
    index->span = dm_get(all + 48, 8, false);
    index->left_out = dm_get(all + 56, 8, false);
    index->partial = dm_get(all + 64, 8, false);
    if (index->entries != (bytes - DM_INDEX_HEAD_BYTES) / DM_INDEX_ENTRY_BYTES ||
        (bytes - DM_INDEX_HEAD_BYTES) % DM_INDEX_ENTRY_BYTES != 0) {
        return dm_fail(reason, EINVAL, "the index has not as many entries as it says");
    }
    return 0;
}

int dm_index_check(const struct dm_index *index, struct vipl_dm_reason *reason)
{
    uint64_t end = 0;
    uint64_t packets = 0;
    struct dm_entry entry;

    if (index->longest > DM_MAX_PACKET) {
        return dm_fail(reason, EINVAL,
                       "the index has packets of %" PRIu32 " bytes, and none is longer than %" PRIu32,
                       index->longest, DM_MAX_PACKET);
    }
    for (uint64_t i = 0; i < index->entries; i++) {
        dm_index_get(index, i, &entry);
        if (entry.bytes == 0) {
            continue;
        }
        if (entry.bytes < DM_MIN_PACKET || entry.bytes > index->longest || entry.offset < end ||
            entry.offset > index->store_bytes || entry.bytes > index->store_bytes - entry.offset) {
            return dm_fail(reason, EINVAL,
                           "entry %" PRIu64 " of the index is not inside the store, or not in order", i);
        }
        end = entry.offset + entry.bytes;
        packets++;
    }
    if (packets != index->packets) {
        return dm_fail(reason, EINVAL, "the index has not as many packets as it says");
    }
    return 0;
}

void dm_index_free(struct dm_index *index)
{
    if (index->is_mapped) {
        munmap(index->all, (size_t)index->room);
    } else {
        free(index->all);
    }
    memset(index, 0, sizeof(*index));
}
