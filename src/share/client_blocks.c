/* SPDX-License-Identifier: MIT */
/* The blocks of shared memory to which this process has a reference. */
#include "share/client_blocks.h"

#include "os/os_atomic.h"
#include "share/client.h"

enum { MOST = 1024 };

/* A block, or room for one. `end` is written before `first` becomes the block's address, and is
 * read between two reads of `first`. */
static struct block {
    void *first; /* atomic: NULL: no block; &reserved: a block that is being added */
    void *end;   /* atomic */
} blocks[MOST];
static uint32_t used;     /* atomic: blocks from this one on have never been used */
static char reserved[16]; /* its address is that of no block */

/* Takes a free element. NULL: there is none. */
static struct block *take_room(void)
{
    for (uint32_t i = 0; i < MOST; i++) {
        if (vipl_load_ptr(&blocks[i].first) == NULL &&
            vipl_compare_exchange_ptr(&blocks[i].first, NULL, reserved)) {
            for (uint32_t now = vipl_load_relaxed(&used); now <= i; now = vipl_load_relaxed(&used)) {
                vipl_compare_exchange(&used, now, i + 1);
            }
            return &blocks[i];
        }
    }
    return NULL;
}

void vipl_share_add_block(void *address, size_t bytes)
{
    struct block *block = take_room();
    if (block != NULL) {
        vipl_store_ptr(&block->end, (char *)address + bytes);
        vipl_store_ptr(&block->first, address); /* pairs with block_bytes() */
    }
}

/* The bytes of the block from `first` on, if that is the block's address; else 0. */
static size_t block_bytes(const struct block *block, const void *first)
{
    const void *before = vipl_load_ptr(&block->first); /* pairs with vipl_share_add_block() */
    const char *end = vipl_load_ptr(&block->end);
    bool is_it = before == first && vipl_load_ptr(&block->first) == first;
    return is_it ? (size_t)(end - (const char *)first) : 0;
}

size_t vipl_share_remove_block(void *address)
{
    uint32_t count = vipl_load_relaxed(&used);
    for (uint32_t i = 0; address != NULL && i < count; i++) {
        size_t bytes = block_bytes(&blocks[i], address);
        if (bytes > 0 && vipl_compare_exchange_ptr(&blocks[i].first, address, NULL)) {
            return bytes;
        }
    }
    return 0;
}

bool vipl_share_has_memory(const void *address, size_t bytes)
{
    const struct vipl_arena *arena = vipl_share_arena();
    uint32_t count = vipl_load_relaxed(&used);
    if (arena == NULL || !vipl_share_is_heap(&arena->heap, address, bytes)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *first = vipl_load_ptr(&blocks[i].first);
        size_t offset = (size_t)((const char *)address - first);
        size_t all = first == NULL || first == reserved ? 0 : block_bytes(&blocks[i], first);
        if (offset < all && bytes <= all - offset) {
            return true;
        }
    }
    return false;
}
