/* SPDX-License-Identifier: MIT */
/* The server's heap: which units of the shared memory are in a block. */
#include "server/heap.h"

#include <string.h>

#include "base/lock_rank.h"
#include "os/os_mutex.h"

static struct {
    struct vipl_mutex lock; /* rank SHARE; guards used */
    struct vipl_heap all;   /* constant; in memory that clients cannot write */
    uint8_t *used;          /* by unit: 1: the unit is in a block */
    size_t units;           /* constant */
} heap;

void vipl_server_heap_init(const struct vipl_heap *shared)
{
    vipl_mutex_init(&heap.lock, VIPL_RANK_SHARE);
    heap.all = *shared;
    heap.units = heap.all.bytes / VIPL_SHARE_PAGE;
    heap.used = vipl_zalloc(heap.units);
    if (heap.used == NULL) {
        heap.units = 0;
    }
}

const struct vipl_heap *vipl_server_heap(void)
{
    return &heap.all;
}

static bool find_units(size_t count, size_t *first)
{
    size_t run = 0;
    for (size_t i = 0; i < heap.units; i++) {
        run = heap.used[i] != 0 ? 0 : run + 1;
        if (run == count) {
            *first = i + 1 - count;
            return true;
        }
    }
    return false;
}

unsigned char *vipl_server_heap_take(size_t bytes, size_t *taken)
{
    size_t first;
    size_t count = bytes / VIPL_SHARE_PAGE + (bytes % VIPL_SHARE_PAGE != 0 ? 1 : 0);
    vipl_mutex_lock(&heap.lock);
    bool found = count > 0 && find_units(count, &first);
    if (found) {
        memset(heap.used + first, 1, count);
    }
    vipl_mutex_unlock(&heap.lock);
    *taken = count * VIPL_SHARE_PAGE;
    return found ? heap.all.base + first * VIPL_SHARE_PAGE : NULL;
}

void vipl_server_heap_give(unsigned char *address, size_t bytes)
{
    vipl_shm_clear(address, bytes);
    vipl_mutex_lock(&heap.lock);
    memset(heap.used + (size_t)(address - heap.all.base) / VIPL_SHARE_PAGE, 0, bytes / VIPL_SHARE_PAGE);
    vipl_mutex_unlock(&heap.lock);
}
