/* SPDX-License-Identifier: MIT */
/* The chunks of a sender, and reading them; see sender.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "dm/reason.h"
#include "dm/sender.h"

/* Which entries from `first` on one chunk has; `base` and `bytes` are what it is read from. Pauses
 * need no bytes. */
static uint64_t chunk_end(const struct vipl_dm_sender *sender, uint64_t first, uint64_t *base,
                          uint32_t *bytes)
{
    const struct dm_index *index = &sender->parts.index;
    uint32_t align = sender->parts.store->align;
    uint64_t start = UINT64_MAX;
    uint64_t end = 0;
    struct dm_entry entry;
    uint64_t i = first;

    for (; i < index->entries; i++) {
        dm_index_get(index, i, &entry);
        if (entry.bytes == 0) {
            continue;
        }
        if (start == UINT64_MAX) {
            start = dm_round_down(entry.offset, align);
        } else if (entry.offset + entry.bytes - start > sender->chunk_bytes) {
            break;
        }
        end = entry.offset + entry.bytes;
    }
    if (start == UINT64_MAX) { /* pauses at the end */
        start = 0;
    }
    *base = start;
    *bytes = (uint32_t)dm_round_up(end > start ? end - start : 0, align);
    return i;
}

int dm_sender_divide(struct vipl_dm_sender *sender, struct vipl_dm_reason *reason)
{
    const struct dm_index *index = &sender->parts.index;
    const struct dm_memory *memory = sender->parts.memory;
    uint64_t ring = memory->bytes / sender->chunk_bytes;
    uint64_t needed = 0;
    uint64_t entry = 0;
    uint64_t base;
    uint32_t bytes;

    if (ring < 2) {
        return dm_fail(reason, EINVAL, "memory of %" PRIu64 " bytes has no room for two chunks of %" PRIu32,
                       memory->bytes, sender->chunk_bytes);
    }
    if (index->longest + sender->parts.store->align > sender->chunk_bytes) {
        return dm_fail(reason, EINVAL, "chunks of %" PRIu32 " bytes are too small for a packet of %" PRIu32,
                       sender->chunk_bytes, index->longest);
    }
    do {
        entry = chunk_end(sender, entry, &base, &bytes);
        needed++;
    } while (entry < index->entries);
    sender->is_resident = needed <= ring;
    sender->ring = (uint32_t)(sender->is_resident ? needed : ring);
    sender->chunks = calloc(sender->ring, sizeof(*sender->chunks));
    if (sender->chunks == NULL) {
        return dm_fail(reason, ENOMEM, "no memory for %" PRIu32 " chunks", sender->ring);
    }
    for (uint32_t i = 0; i < sender->ring; i++) {
        sender->chunks[i].at = memory->base + (uint64_t)i * sender->chunk_bytes;
    }
    return 0;
}

/* Whether there is a chunk to be read, and memory for it. */
static bool can_read(const struct vipl_dm_sender *sender)
{
    const struct dm_chunk *chunk = &sender->chunks[sender->read_next];

    if (chunk->state != DM_CHUNK_FREE || sender->reading == DM_MAX_TRANSFERS) {
        return false;
    }
    return sender->read_entry < sender->parts.index.entries;
}

static int submit_chunks(struct vipl_dm_sender *sender, struct vipl_dm_reason *reason)
{
    struct dm_store *store = sender->parts.store;

    while (can_read(sender)) {
        struct dm_chunk *chunk = &sender->chunks[sender->read_next];
        struct dm_transfer transfer = {chunk->at, 0, 0, sender->read_next};
        int error = 0;

        chunk->first = sender->read_entry;
        chunk->end = chunk_end(sender, chunk->first, &chunk->base, &chunk->bytes);
        transfer.offset = chunk->base;
        transfer.bytes = chunk->bytes;
        chunk->state = chunk->bytes > 0 ? DM_CHUNK_READING : DM_CHUNK_READY;
        if (chunk->bytes > 0) {
            error = store->kind->submit(store, &transfer);
            if (error != 0) {
                chunk->state = DM_CHUNK_FREE;
                return error == EAGAIN
                           ? 0
                           : dm_fail(reason, error, "the store cannot be read: %s", strerror(error));
            }
            sender->reading++;
        }
        sender->read_entry = chunk->end;
        if (sender->read_entry == sender->parts.index.entries && !sender->is_resident) {
            sender->read_entry = 0; /* the next pass */
        }
        sender->read_next = sender->read_next + 1 < sender->ring ? sender->read_next + 1 : 0;
    }
    return 0;
}

static int take_chunk(struct vipl_dm_sender *sender, const struct dm_transferred *ended,
                      struct vipl_dm_reason *reason)
{
    struct dm_chunk *chunk = &sender->chunks[ended->cookie];
    uint64_t rest = sender->parts.index.store_bytes - chunk->base;

    sender->reading--;
    chunk->state = DM_CHUNK_READY;
    if (ended->error != 0) {
        return dm_fail(reason, ended->error, "the store cannot be read: %s", strerror(ended->error));
    }
    if (ended->bytes < chunk->bytes && ended->bytes < rest) {
        return dm_fail(reason, ESTALE, "the recording has become shorter");
    }
    return 0;
}

int dm_sender_read(struct vipl_dm_sender *sender, bool wait, struct vipl_dm_reason *reason)
{
    struct dm_store *store = sender->parts.store;
    struct dm_transferred ended[16];
    unsigned count;
    int error = submit_chunks(sender, reason);

    if (error != 0 || sender->reading == 0) {
        return error;
    }
    count = store->kind->reap(store, ended, 16, wait);
    for (unsigned i = 0; i < count; i++) {
        int bad = take_chunk(sender, &ended[i], reason);
        error = bad != 0 ? bad : error;
    }
    return error;
}

void dm_sender_free_chunks(struct vipl_dm_sender *sender)
{
    uint64_t completed = sender->parts.port->kind->completed(sender->parts.port);

    for (;;) {
        struct dm_chunk *chunk = &sender->chunks[sender->free_next];
        if (chunk->state != DM_CHUNK_SENDING || chunk->last > completed) {
            return;
        }
        chunk->state = DM_CHUNK_FREE;
        sender->free_next = sender->free_next + 1 < sender->ring ? sender->free_next + 1 : 0;
    }
}

void dm_sender_quiet(struct vipl_dm_sender *sender)
{
    struct vipl_dm_reason ignored = {""};
    struct dm_transferred ended;

    while (sender->reading > 0) {
        if (sender->parts.store->kind->reap(sender->parts.store, &ended, 1, true) == 1) {
            (void)take_chunk(sender, &ended, &ignored);
        }
    }
}
