/* SPDX-License-Identifier: MIT */
/* The table of registered memory that peers read. */
#include "backends/loopback/exports.h"

#include "core/backend.h"
#include "os/os_atomic.h"

static uint64_t join(const uint32_t *low, const uint32_t *high)
{
    return (uint64_t)vipl_load_relaxed(high) << 32 | vipl_load_relaxed(low);
}

static void split(uint32_t *low, uint32_t *high, uint64_t value)
{
    vipl_store_relaxed(low, (uint32_t)value);
    vipl_store_relaxed(high, (uint32_t)(value >> 32));
}

static struct lo_window_entry *probe(struct lo_window *window, VIP_MEM_HANDLE handle, unsigned i)
{
    return &window->entries[(handle + i) & (LO_WINDOW_ENTRIES - 1)];
}

/* A crowded neighbourhood leaves the region out: its RDMA then goes through the rings. */
void vipl_lo_window_enter(struct lo_window *window, const struct vipl_region_params *region)
{
    for (unsigned i = 0; i < LO_WINDOW_PROBES; i++) {
        struct lo_window_entry *e = probe(window, region->handle, i);
        if (vipl_load_relaxed(&e->handle) != 0) {
            continue;
        }
        vipl_store_relaxed(&e->tag, region->tag);
        vipl_store_relaxed(&e->rights, (region->rdma_write ? 1u : 0u) | (region->rdma_read ? 2u : 0u));
        split(&e->address_low, &e->address_high, (uint64_t)(uintptr_t)region->address);
        split(&e->bytes_low, &e->bytes_high, region->bytes);
        vipl_store_release(&e->handle, region->handle); /* pairs with vipl_lo_window_allows */
        return;
    }
}

struct lo_window_entry *vipl_lo_window_leave(struct lo_window *window, VIP_MEM_HANDLE handle)
{
    for (unsigned i = 0; i < LO_WINDOW_PROBES; i++) {
        struct lo_window_entry *e = probe(window, handle, i);
        if (vipl_load_relaxed(&e->handle) == handle) {
            vipl_store_ordered(&e->handle, 0); /* before the counts are looked at */
            return e;
        }
    }
    return NULL;
}

void vipl_lo_window_return(struct lo_window_entry *entry, VIP_MEM_HANDLE handle)
{
    vipl_store_release(&entry->handle, handle); /* pairs with vipl_lo_window_allows */
}

bool vipl_lo_window_allows(const struct lo_window *window, uint32_t tag, bool write, VIP_MEM_HANDLE handle,
                           uint64_t address, uint64_t bytes)
{
    bool is_shut = vipl_load_ordered(&window->shut) != 0; /* pairs with vipl_lo_regions_end */
    for (unsigned i = 0; handle != 0 && !is_shut && i < LO_WINDOW_PROBES; i++) {
        struct lo_window_entry *e = probe((struct lo_window *)(uintptr_t)window, handle, i);
        if (vipl_load_ordered(&e->handle) != handle) {
            continue;
        }
        uint64_t start = join(&e->address_low, &e->address_high);
        uint64_t length = join(&e->bytes_low, &e->bytes_high);
        bool right = (vipl_load_relaxed(&e->rights) & (write ? 1u : 2u)) != 0;
        bool tagged = tag == 0 || vipl_load_relaxed(&e->tag) == tag;
        return right && tagged && address >= start && address - start <= length &&
               bytes <= length - (address - start);
    }
    return false;
}
