/* SPDX-License-Identifier: MIT */
/*
 * * The handle table: chunks that are never moved or freed, so that look-ups need no lock. A handle
 * is stamp << SLOT_BITS | slot, and a stamp is generation << 4 | kind. Free slots are reused oldest
 * first, so that it takes long until a generation comes again. The generation of a slot begins at a
 * random number, so that handles of another process, or of an earlier run, are not found. A forked
 * child uses other slots than its parent.
 */
#include "base/handle.h"

#include <stdint.h>

#include "base/lock_rank.h"
#include "os/os.h"
#include "os/os_mutex.h"

enum {
    CHUNK_BITS = VIPL_HANDLE_CHUNK_BITS,
    CHUNK = VIPL_HANDLE_CHUNK,
    KIND_BITS = VIPL_KIND_BITS,
    SLOT_BITS = VIPL_SLOT_BITS
};
#if UINTPTR_MAX > 0xFFFFFFFFu
#define STAMP_MASK UINT32_MAX
#else
#define STAMP_MASK ((UINT32_C(1) << (32 - SLOT_BITS)) - 1)
#endif
enum { CHUNKS = (1 << SLOT_BITS) / CHUNK, NO_SLOT = -1 };

void *vipl_handle_chunks[CHUNKS];

static struct {
    struct vipl_mutex lock; /* rank HANDLE; guards all fields here, and the lists of free slots */
    /* in a forked child: the parent's chunks, kept reachable for leak checkers */
    void *left[CHUNKS];
    int32_t first_chunk; /* the chunks of this process begin here, and wrap around */
    int32_t used_chunks;
    /* The slots of the latest chunk from here to its end have never been used, and their memory has
     * not been touched. NO_SLOT: there is none. */
    int32_t fresh;
    uint32_t salt; /* of the latest chunk: the generations of its slots begin there */
    int32_t first_free;
    int32_t last_free;
} table = {
    .lock = VIPL_MUTEX_INIT(VIPL_RANK_HANDLE), .fresh = NO_SLOT, .first_free = NO_SLOT, .last_free = NO_SLOT};

static struct vipl_handle_entry *slot_entry(int32_t slot)
{
    return vipl_handle_entry_at((uint32_t)slot);
}

static void append_free_locked(int32_t slot)
{
    struct vipl_handle_entry *e = slot_entry(slot);
    e->next_free = NO_SLOT;
    if (table.first_free == NO_SLOT) {
        table.first_free = slot;
    } else {
        slot_entry(table.last_free)->next_free = slot;
    }
    table.last_free = slot;
}

static void grow_table_locked(void)
{
    if (table.used_chunks == CHUNKS || vipl_entropy(&table.salt, sizeof(table.salt)) != 0) {
        return;
    }
    struct vipl_handle_entry *chunk = vipl_zalloc(sizeof(*chunk) * CHUNK);
    if (chunk == NULL) {
        return;
    }
    int32_t chunk_at = (table.first_chunk + table.used_chunks) % CHUNKS;
    table.used_chunks++;
    table.fresh = chunk_at << CHUNK_BITS;
    vipl_store_ptr(&vipl_handle_chunks[chunk_at], chunk); /* pairs with vipl_handle_entry_at() */
}

static int32_t take_fresh_locked(void)
{
    int32_t slot = table.fresh;
    uint32_t nth = (uint32_t)slot % CHUNK;
    vipl_store_relaxed(&slot_entry(slot)->stamp, (table.salt + nth * 0x9E3779B9u) << KIND_BITS & STAMP_MASK);
    table.fresh = nth + 1 == CHUNK ? NO_SLOT : slot + 1;
    return slot;
}

/* Takes a slot that no handle has: one that has never been used, or else the one that is free for
 * the longest time. NO_SLOT: no memory, or there are too many handles. */
static int32_t take_slot_locked(void)
{
    if (table.fresh == NO_SLOT && table.first_free == NO_SLOT) {
        grow_table_locked();
    }
    if (table.fresh != NO_SLOT) {
        return take_fresh_locked();
    }
    int32_t slot = table.first_free;
    table.first_free = slot == NO_SLOT ? NO_SLOT : slot_entry(slot)->next_free;
    return slot;
}

void *vipl_handle_create(enum vipl_kind kind, void *object)
{
    vipl_mutex_lock(&table.lock);
    int32_t slot = take_slot_locked();
    if (slot == NO_SLOT) {
        vipl_mutex_unlock(&table.lock);
        return NULL;
    }
    struct vipl_handle_entry *e = slot_entry(slot);
    uint32_t stamp =
        ((e->stamp + (1u << KIND_BITS)) & STAMP_MASK & ~((1u << KIND_BITS) - 1)) | (uint32_t)kind;
    vipl_store_ptr(&e->object, object);
    vipl_store_release(&e->stamp, stamp); /* pairs with vipl_handle_find() */
    vipl_mutex_unlock(&table.lock);
    return (void *)((uintptr_t)stamp << SLOT_BITS | (uintptr_t)slot);
}

static int32_t slot_of(const void *handle)
{
    return (int32_t)vipl_handle_slot(handle);
}

void vipl_handle_destroy(void *handle)
{
    vipl_mutex_lock(&table.lock);
    struct vipl_handle_entry *e = slot_entry(slot_of(handle));
    vipl_store_release(&e->stamp, e->stamp & ~((1u << KIND_BITS) - 1));
    append_free_locked(slot_of(handle));
    vipl_mutex_unlock(&table.lock);
}

void vipl_handle_abandon(void)
{
    vipl_mutex_init(&table.lock, VIPL_RANK_HANDLE);
    for (int32_t i = 0; i < table.used_chunks; i++) {
        int32_t chunk_at = (table.first_chunk + i) % CHUNKS;
        table.left[chunk_at] = vipl_handle_chunks[chunk_at];
        vipl_handle_chunks[chunk_at] = NULL; /* the parent's table is untouched */
    }
    /* The child does not use the parent's slots. */
    table.first_chunk = (table.first_chunk + table.used_chunks) % CHUNKS;
    table.used_chunks = 0;
    table.fresh = NO_SLOT;
    table.first_free = NO_SLOT;
    table.last_free = NO_SLOT;
}
