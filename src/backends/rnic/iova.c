/* SPDX-License-Identifier: MIT */
/* Ranges are looked for from where the last one ended on, round and round. */
#include "backends/rnic/iova.h"

#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "base/lock_rank.h"
#include "os/os.h"

static const uint64_t PAGE = 65536;         /* a multiple of every system's */
static const uint64_t LARGE_PAGE = 2 << 20; /* of what is as large, so that the IOMMU can use such pages */

struct taken {
    struct vipl_range range; /* whole pages */
    uint64_t first;          /* of the memory's first byte */
    uint64_t bytes;
    uint8_t *address;
    unsigned access;
};

void rnic_iova_init(struct rnic_iova *iova, const struct rnic_iova_window *windows, unsigned count)
{
    memset(iova, 0, sizeof(*iova));
    vipl_mutex_init(&iova->lock, VIPL_RANK_IOVA);
    vipl_ranges_init(&iova->used);
    iova->count = count;
    memcpy(iova->windows, windows, count * sizeof(*windows));
    iova->next = count > 0 ? windows[0].first : 0;
}

void rnic_iova_fini(struct rnic_iova *iova)
{
    while (iova->used.root != NULL) {
        struct vipl_range *range = iova->used.root;
        vipl_ranges_remove(&iova->used, range);
        vipl_free(VIPL_CONTAINER(range, struct taken, range));
    }
}

/* The first address from `from` on with that remainder; UINT64_MAX: there is none. */
static uint64_t align_up(uint64_t from, uint64_t page, uint64_t remainder)
{
    uint64_t more = (remainder - from) % page;
    return from > UINT64_MAX - more ? UINT64_MAX : from + more;
}

/* The first free place of the window that begins at `from` or later. */
static bool find_in(const struct rnic_iova *iova, const struct rnic_iova_window *window, uint64_t from,
                    uint64_t bytes, uint64_t page, uint64_t remainder, uint64_t *out)
{
    from = from < window->first ? window->first : from;
    for (;;) {
        uint64_t at = align_up(from, page, remainder);
        if (at > window->last || window->last - at < bytes - 1) {
            return false;
        }
        const struct vipl_range *next = vipl_ranges_at_or_after(&iova->used, at);
        if (next == NULL || next->first > at + (bytes - 1)) {
            *out = at;
            return true;
        }
        if (next->last == UINT64_MAX) {
            return false;
        }
        from = next->last + 1;
    }
}

/* Twice round: what lies below `next` in its window comes last. */
static bool find_locked(const struct rnic_iova *iova, uint64_t bytes, uint64_t page, uint64_t remainder,
                        uint64_t *out)
{
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned i = 0; i < iova->count; i++) {
            if (find_in(iova, &iova->windows[i], turn == 0 ? iova->next : 0, bytes, page, remainder, out)) {
                return true;
            }
        }
    }
    return false;
}

int rnic_iova_take(struct rnic_iova *iova, void *address, size_t bytes, unsigned access, uint64_t *out)
{
    uint64_t at = (uintptr_t)address;
    uint64_t page = bytes >= LARGE_PAGE ? LARGE_PAGE : PAGE;
    uint64_t lead =
        at % PAGE; /* whole pages are taken: what is in front of the memory in its first one, too */
    struct taken *taken = bytes == 0 || bytes > UINT64_MAX - 2 * PAGE ? NULL : vipl_zalloc(sizeof(*taken));
    if (taken == NULL) {
        return bytes == 0 ? EINVAL : ENOMEM;
    }
    uint64_t whole = (lead + bytes + PAGE - 1) / PAGE * PAGE;
    uint64_t begin;
    vipl_mutex_lock(&iova->lock);
    bool found = find_locked(iova, whole, page, (at - lead) % page, &begin);
    if (found) {
        *taken =
            (struct taken){{begin, begin + (whole - 1), NULL, NULL, 0}, begin + lead, bytes, address, access};
        vipl_ranges_add(&iova->used, &taken->range); /* which overlaps none */
        iova->next = begin + (whole - 1);
        *out = taken->first;
    }
    vipl_mutex_unlock(&iova->lock);
    if (!found) {
        vipl_free(taken);
    }
    return found ? 0 : ENOSPC;
}

/* The range that an address lies in; NULL: it is free. */
static struct taken *taken_at(const struct rnic_iova *iova, uint64_t address)
{
    struct vipl_range *range = vipl_ranges_at_or_after(&iova->used, address);
    return range == NULL || range->first > address ? NULL : VIPL_CONTAINER(range, struct taken, range);
}

void rnic_iova_give(struct rnic_iova *iova, uint64_t address)
{
    vipl_mutex_lock(&iova->lock);
    struct taken *taken = taken_at(iova, address);
    if (taken != NULL) {
        vipl_ranges_remove(&iova->used, &taken->range);
    }
    vipl_mutex_unlock(&iova->lock);
    vipl_free(taken);
}

void *rnic_iova_find(struct rnic_iova *iova, uint64_t address, uint64_t bytes, unsigned access)
{
    void *found = NULL;
    vipl_mutex_lock(&iova->lock);
    const struct taken *taken = taken_at(iova, address);
    if (taken != NULL && address >= taken->first && (taken->access & access) == access &&
        bytes <= taken->bytes && address - taken->first <= taken->bytes - bytes) {
        found = taken->address + (address - taken->first);
    }
    vipl_mutex_unlock(&iova->lock);
    return found;
}
