/* SPDX-License-Identifier: MIT */
/* The rings of posts, and the table of regions. */
#include "share/posts.h"

#include "os/os_atomic.h"

bool vipl_posts_claim(struct vipl_ring *ring)
{
    uint32_t claimed;
    do {
        claimed = vipl_load_acquire(&ring->claimed); /* pairs with the claims of other threads */
        if (claimed - vipl_load_acquire(&ring->reaped) >= VIPL_SHARE_DEPTH) {
            return false;
        }
    } while (!vipl_compare_exchange(&ring->claimed, claimed, claimed + 1));
    return true;
}

static void write_submission(struct vipl_submission *to, const struct vipl_submission *from, uint32_t stamp)
{
    vipl_store_ptr(&to->vi, from->vi); /* `tail`, stored later, pairs with the server's load */
    vipl_store_ptr(&to->descriptor, from->descriptor);
    vipl_store_relaxed(&to->memory, from->memory);
    vipl_store_relaxed(&to->stamp, stamp);
}

/* `claiming` is stored before the claim, and cleared after the entry is written: a server that sees
 * the claim sees either `claiming` or the entry. */
bool vipl_posts_put(struct vipl_posts *posts, unsigned client, struct vipl_ring *ring,
                    const struct vipl_submission *entry)
{
    struct vipl_submissions *mine = &posts->clients[client];
    uint32_t tail = vipl_load_relaxed(&mine->tail);
    /* pairs with the server's store */
    if (tail - vipl_load_acquire(&mine->head) >= VIPL_SHARE_POSTS) {
        return false;
    }
    vipl_store_relaxed(&mine->claiming, vipl_posts_code(entry->vi));
    bool claimed = vipl_posts_claim(ring);
    if (claimed) {
        uint32_t stamp = vipl_fetch_add(&posts->stamp, 1);
        write_submission(&mine->entries[tail % VIPL_SHARE_POSTS], entry, stamp);
        vipl_store_ordered(&mine->tail, tail + 1); /* before `pending` and `asleep` are read */
    }
    /* pairs with the load of a server that counts the claims */
    vipl_store_release(&mine->claiming, 0);
    return claimed;
}

/* The server clears the bit before it reads `tail`, and checks the bits after it
 * has set `asleep`. */
bool vipl_posts_mark_pending(struct vipl_posts *posts, unsigned client)
{
    uint32_t bit = UINT32_C(1) << client % 32;
    uint32_t *word = &posts->pending[client / 32];
    if ((vipl_load_ordered(word) & bit) == 0) {
        vipl_fetch_or(word, bit);
    }
    return vipl_load_ordered(&posts->asleep) != 0 && vipl_exchange(&posts->asleep, 0) != 0;
}

struct vipl_submission vipl_posts_read(const struct vipl_submissions *ring, uint32_t index)
{
    const struct vipl_submission *from = &ring->entries[index % VIPL_SHARE_POSTS];
    return (struct vipl_submission){vipl_load_ptr(&from->vi), vipl_load_ptr(&from->descriptor),
                                    vipl_load_relaxed(&from->memory), vipl_load_relaxed(&from->stamp)};
}

/* --- regions --- */

/* Devices may number their handles in turn; multiplying spreads them (mem.c). */
static uint32_t region_index(const void *nic, VIP_MEM_HANDLE memory)
{
    return ((memory + vipl_handle_slot(nic)) * 2654435769u) >> 16 & (VIPL_SHARE_REGIONS - 1);
}

/* The reader loads with acquire what was stored with release, so a reader that sees part of a
 * change sees the odd version. */
static void write_region(struct vipl_shared_region *region, void *nic, unsigned char *begin, size_t bytes,
                         VIP_MEM_HANDLE memory)
{
    uint32_t version = vipl_load_relaxed(&region->version) | 1;
    vipl_store_ordered(&region->version, version);
    vipl_store_ptr(&region->nic, nic);
    vipl_store_ptr(&region->begin, begin);
    vipl_store_ptr(&region->end, begin == NULL ? NULL : begin + bytes);
    vipl_store_release(&region->memory, memory);
    vipl_store_release(&region->version, version + 1);
}

void vipl_posts_enter_region(struct vipl_posts *posts, void *nic, void *address, size_t bytes,
                             VIP_MEM_HANDLE memory)
{
    write_region(&posts->regions[region_index(nic, memory)], nic, address, bytes, memory);
}

void vipl_posts_leave_region(struct vipl_posts *posts, const void *nic, VIP_MEM_HANDLE memory)
{
    struct vipl_shared_region *region = &posts->regions[region_index(nic, memory)];
    if (vipl_load_ptr(&region->nic) == nic && vipl_load_relaxed(&region->memory) == memory) {
        write_region(region, NULL, NULL, 0, 0);
    }
}

bool vipl_posts_covers(const struct vipl_posts *posts, const void *nic, VIP_MEM_HANDLE memory,
                       const void *address, size_t bytes)
{
    const struct vipl_shared_region *region = &posts->regions[region_index(nic, memory)];
    uint32_t version = vipl_load_acquire(&region->version);
    bool is_it =
        vipl_load_ptr(&region->nic) == nic && nic != NULL && vipl_load_acquire(&region->memory) == memory;
    uintptr_t begin = (uintptr_t)vipl_load_ptr(&region->begin);
    uintptr_t end = (uintptr_t)vipl_load_ptr(&region->end);
    uintptr_t at = (uintptr_t)address;
    bool whole = version % 2 == 0 && vipl_load_relaxed(&region->version) == version;
    return is_it && whole && at >= begin && at < end && bytes <= end - at;
}
