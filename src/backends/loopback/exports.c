/* SPDX-License-Identifier: MIT */
/*
 * The export table, and the revocation of its entries. To revoke an entry, remove it, and then wait
 * until every access that began under an older epoch has ended. If a peer stays inside an access
 * (it is stopped, or hostile) it may still write: the revocation fails, the region stays
 * registered, and the entry is published again.
 */
#include "backends/loopback/exports.h"

#include <errno.h>
#include <stddef.h>

#include "backends/loopback/link.h"
#include "base/log.h"
#include "os/os_atomic.h"

enum {
    REVOKE_MS = 1000, /* for a peer to finish an access */
    STUCK_MS = 10,    /* for a peer that has exceeded REVOKE_MS and is still inside */
    NS_PER_MS = 1000000
};

/* --- the table --- */

static uint64_t load_u64(const uint32_t *low, const uint32_t *high)
{
    return (uint64_t)vipl_load_relaxed(high) << 32 | vipl_load_relaxed(low);
}

static void store_u64(uint32_t *low, uint32_t *high, uint64_t value)
{
    vipl_store_relaxed(low, (uint32_t)value);
    vipl_store_relaxed(high, (uint32_t)(value >> 32));
}

/* Returns the entry of that probe; NULL: its part of the table has no memory, and so no entries. */
static struct lo_export *entry_at_probe(struct lo_exports *exports, VIP_MEM_HANDLE handle, unsigned i)
{
    uint32_t entry = (handle + i) & (LO_EXPORTS - 1);
    uint32_t backed = vipl_load_acquire(&exports->backed); /* pairs with back_part() */
    return (backed & lo_export_part(entry)) == 0 ? NULL : &exports->entries[entry];
}

/* Allocates the part of the table with the entry of that probe. Returns false if there is no
 * memory. */
static bool back_part(struct lo_exports *exports, VIP_MEM_HANDLE handle, unsigned i)
{
    const uint32_t each = LO_EXPORTS / LO_EXPORT_PARTS;
    uint32_t entry = (handle + i) & (LO_EXPORTS - 1);
    uint32_t backed = vipl_load_relaxed(&exports->backed) | lo_export_part(entry);
    if (vipl_shm_allocate(&exports->entries[entry - entry % each], each * sizeof(struct lo_export)) != 0) {
        return false;
    }
    vipl_store_release(&exports->backed, backed); /* pairs with entry_at_probe() */
    return true;
}

void vipl_lo_exports_add(struct lo_exports *exports, const struct vipl_region_params *region)
{
    for (unsigned i = 0; i < LO_EXPORT_PROBES; i++) {
        struct lo_export *e = entry_at_probe(exports, region->handle, i);
        if (e == NULL && back_part(exports, region->handle, i)) {
            e = entry_at_probe(exports, region->handle, i);
        }
        if (e == NULL || vipl_load_relaxed(&e->handle) != 0) {
            continue;
        }
        vipl_store_relaxed(&e->tag, region->tag);
        vipl_store_relaxed(&e->rights, (region->rdma_write ? 1u : 0u) | (region->rdma_read ? 2u : 0u));
        store_u64(&e->address_low, &e->address_high, (uint64_t)(uintptr_t)region->address);
        store_u64(&e->bytes_low, &e->bytes_high, region->bytes);
        struct vipl_mappable mappable;
        vipl_shm_find_mappable(region->address, region->bytes, &mappable);
        vipl_store_relaxed(&e->descriptor, mappable.descriptor);
        store_u64(&e->inode_low, &e->inode_high, mappable.inode);
        store_u64(&e->offset_low, &e->offset_high, mappable.offset);
        vipl_store_release(&e->handle, region->handle); /* pairs with vipl_lo_exports_find */
        return;
    }
}

struct lo_export *vipl_lo_exports_remove(struct lo_exports *exports, VIP_MEM_HANDLE handle)
{
    for (unsigned i = 0; i < LO_EXPORT_PROBES; i++) {
        struct lo_export *e = entry_at_probe(exports, handle, i);
        if (e != NULL && vipl_load_relaxed(&e->handle) == handle) {
            vipl_store_ordered(&e->handle, 0); /* before the epoch changes */
            return e;
        }
    }
    return NULL;
}

bool vipl_lo_exports_find(const struct lo_exports *exports, uint32_t tag, VIP_MEM_HANDLE handle,
                          struct lo_exported *out)
{
    bool is_shut = vipl_load_ordered(&exports->shut) != 0; /* pairs with vipl_lo_regions_end */
    for (unsigned i = 0; handle != 0 && !is_shut && i < LO_EXPORT_PROBES; i++) {
        struct lo_export *e = entry_at_probe((struct lo_exports *)(uintptr_t)exports, handle, i);
        if (e == NULL || vipl_load_ordered(&e->handle) != handle) {
            continue;
        }
        out->rights = vipl_load_relaxed(&e->rights);
        out->start = load_u64(&e->address_low, &e->address_high);
        out->bytes = load_u64(&e->bytes_low, &e->bytes_high);
        out->mappable.descriptor = vipl_load_relaxed(&e->descriptor);
        out->mappable.inode = load_u64(&e->inode_low, &e->inode_high);
        out->mappable.offset = load_u64(&e->offset_low, &e->offset_high);
        return tag == 0 || vipl_load_relaxed(&e->tag) == tag;
    }
    return false;
}

/* --- this NIC handle's table --- */

/* Makes the table. Its parts get memory as regions are exported; where the system cannot allocate a
 * part of a mapping, all of them have it. */
static int make_table(struct vipl_shm *shm)
{
    static const char label[] = "vipl-exports";
    struct vipl_shm table;
    int error = vipl_shm_create_sparse(&table, label, sizeof(struct lo_exports));
    if (error == 0) {
        error = vipl_shm_allocate(table.base, offsetof(struct lo_exports, entries));
        if (error != 0) {
            vipl_shm_release(&table);
        }
    }
    if (error == ENOTSUP) {
        error = vipl_shm_create(&table, label, sizeof(struct lo_exports));
        if (error == 0) {
            vipl_store_relaxed(&((struct lo_exports *)table.base)->backed, UINT32_MAX);
        }
    }
    if (error == 0) {
        *shm = table;
    }
    return error;
}

int vipl_lo_own_exports(struct vipl_be_nic *be)
{
    int error = 0;
    vipl_mutex_lock(&be->exports_lock);
    if (be->exports.base == NULL) {
        error = make_table(&be->exports);
    }
    int fd = be->exports.fd;
    vipl_mutex_unlock(&be->exports_lock);
    if (error != 0) {
        vipl_log_os(VIPL_LOG_ERROR, "making an export table", error);
        return -1;
    }
    return fd;
}

/* --- waiting for peers --- */

/* Returns the number of access words that the peer says it uses, and where they are. */
static uint32_t peer_words(const struct lo_link *link, struct lo_accesses **accesses)
{
    *accesses = &link->segment->accesses[1 - link->side];
    uint32_t used = vipl_load_ordered(&(*accesses)->used); /* pairs with take_access_epoch() */
    return used < LO_ACCESSES ? used : LO_ACCESSES;
}

/* Whether a session of the peer may have begun an access that its word does not show yet. */
static bool accesses_without_barrier(const struct lo_link *link)
{
    struct lo_accesses *accesses;
    uint32_t used = peer_words(link, &accesses);
    bool unfenced = false;
    for (uint32_t i = 0; i < used && !unfenced; i++) {
        unfenced = vipl_load_ordered(lo_access_epoch(accesses, i)) != 0; /* pairs with direct.c */
    }
    return unfenced;
}

/* Whether a word of the peer shows an access that began under another epoch than `epoch`. */
static bool has_older_access(const struct lo_link *link, uint32_t epoch)
{
    struct lo_accesses *accesses;
    uint32_t used = peer_words(link, &accesses);
    bool inside = false;
    for (uint32_t i = 0; i < used && !inside; i++) {
        uint32_t word = vipl_load_ordered(lo_access_epoch(accesses, i)); /* pairs with direct.c */
        inside = (word & 1) != 0 && word != lo_access_under(epoch);
    }
    return inside;
}

/* Whether the peer has died: its socket is closed after its last thread has ended, so that it
 * writes no more. rx is held. */
static bool peer_has_gone(const struct lo_link *link)
{
    return vipl_load_relaxed(&link->dead) != 0 || link->hung_up || vipl_local_has_hung_up(link->source.fd);
}

/* Checks a link. Sets *inside if the peer is inside an access, so that the link is to be checked
 * again. Returns false if the peer has been waited for long enough. rx is held. */
static bool check_link(struct lo_link *link, uint32_t epoch, uint64_t waited_ns, bool *inside)
{
    if (!has_older_access(link, epoch) || peer_has_gone(link)) {
        link->stuck = false;
        return true;
    }
    *inside = true;
    if (waited_ns < (uint64_t)(link->stuck ? STUCK_MS : REVOKE_MS) * NS_PER_MS) {
        return true;
    }
    if (!link->stuck) {
        vipl_log(VIPL_LOG_ERROR, "process %d has stopped in the middle of an access to registered memory",
                 link->peer.pid);
    }
    link->stuck = true;
    return false;
}

/* Steps through all links, or through `only` alone. NULL: there are no more. rx is held. */
static struct lo_link *next_link(struct lo_remote *remote, const struct lo_link *only, struct vipl_list **at)
{
    while ((*at = (*at)->next) != &remote->links) {
        struct lo_link *link = VIPL_CONTAINER(*at, struct lo_link, link);
        if (only == NULL || only == link) {
            return link;
        }
    }
    return NULL;
}

/* Makes sure that the words show every access that peers have begun. */
static void make_accesses_seen(struct lo_remote *remote, const struct lo_link *only)
{
    struct vipl_list *at = &remote->links;
    struct lo_link *link;
    bool unfenced = false;
    vipl_biased_lock(&remote->rx);
    while (!unfenced && (link = next_link(remote, only, &at)) != NULL) {
        unfenced = accesses_without_barrier(link);
    }
    vipl_biased_unlock(&remote->rx);
    if (unfenced && !vipl_barrier_in_all()) {
        vipl_poll(NULL, 0, 1, NULL); /* no processor keeps a store back for a millisecond */
    }
}

/* Waits until no peer, or not the one of `only`, accesses under an older epoch. Returns false if
 * one does not end its access in time. */
static bool await_accesses(struct lo_remote *remote, const struct lo_link *only, uint32_t epoch)
{
    uint64_t begin = vipl_now_ns();
    for (;;) {
        struct vipl_list *at = &remote->links;
        struct lo_link *link;
        bool inside = false;
        bool in_time = true;
        vipl_biased_lock(&remote->rx);
        while (in_time && (link = next_link(remote, only, &at)) != NULL) {
            in_time = check_link(link, epoch, vipl_now_ns() - begin, &inside);
        }
        vipl_biased_unlock(&remote->rx);
        if (!inside || !in_time) {
            return in_time;
        }
        vipl_poll(NULL, 0, 1, NULL);
    }
}

/* Begins a new epoch, and waits for all accesses that began before it, on all links or on `only`.
 * An access that begins later sees the new epoch, and with it what was removed before. Returns
 * false if an access does not end in time. The export lock is held. */
static bool drain_accesses(struct vipl_be_nic *be, const struct lo_link *only)
{
    struct lo_remote *remote = lo_remote_of(be);
    struct lo_exports *exports = be->exports.base;
    if (remote == NULL) {
        return true;
    }
    uint32_t epoch = vipl_load_relaxed(&exports->epoch) + 1;
    vipl_store_ordered(&exports->epoch, epoch); /* pairs with direct.c */
    make_accesses_seen(remote, only);
    return await_accesses(remote, only, epoch);
}

void vipl_lo_session_drain_accesses(struct lo_session *session)
{
    struct vipl_be_nic *be = session->link->be;
    vipl_mutex_lock(&be->exports_lock);
    drain_accesses(be, session->link); /* on failure, ending the regions fails later */
    vipl_mutex_unlock(&be->exports_lock);
}

/* --- regions --- */

static VIP_RETURN export_region(struct vipl_be_nic *be, const struct vipl_region_params *region)
{
    if (!region->rdma_write && !region->rdma_read) {
        return VIP_SUCCESS;
    }
    if (vipl_lo_own_exports(be) < 0) {
        return VIP_ERROR_RESOURCE;
    }
    vipl_mutex_lock(&be->exports_lock);
    vipl_lo_exports_add(be->exports.base, region);
    vipl_mutex_unlock(&be->exports_lock);
    return VIP_SUCCESS;
}

VIP_RETURN vipl_lo_region_add(struct vipl_be_nic *be, struct vipl_region_params *region)
{
    return export_region(be, region);
}

/* The export lock is held. */
static VIP_RETURN unexport_locked(struct vipl_be_nic *be, VIP_MEM_HANDLE handle)
{
    struct lo_exports *exports = be->exports.base;
    struct lo_export *entry = exports == NULL ? NULL : vipl_lo_exports_remove(exports, handle);
    if (entry == NULL || drain_accesses(be, NULL)) {
        return VIP_SUCCESS;
    }
    /* published again; pairs with vipl_lo_exports_find */
    vipl_store_release(&entry->handle, handle);
    return VIP_ERROR_RESOURCE;
}

VIP_RETURN vipl_lo_region_remove(struct vipl_be_nic *be, VIP_MEM_HANDLE handle)
{
    vipl_mutex_lock(&be->exports_lock);
    VIP_RETURN rc = unexport_locked(be, handle);
    vipl_mutex_unlock(&be->exports_lock);
    return rc;
}

VIP_RETURN vipl_lo_region_change(struct vipl_be_nic *be, const struct vipl_region_params *region)
{
    if ((region->rdma_write || region->rdma_read) && vipl_lo_own_exports(be) < 0) {
        return VIP_ERROR_RESOURCE;
    }
    VIP_RETURN rc = vipl_lo_region_remove(be, region->handle);
    /* the table exists: this cannot fail */
    return rc == VIP_SUCCESS ? export_region(be, region) : rc;
}

VIP_RETURN vipl_lo_regions_end(struct vipl_be_nic *be)
{
    VIP_RETURN rc = VIP_SUCCESS;
    vipl_mutex_lock(&be->exports_lock);
    struct lo_exports *exports = be->exports.base;
    if (exports != NULL && vipl_load_relaxed(&exports->shut) == 0) {
        vipl_store_ordered(&exports->shut, 1); /* before the epoch changes */
        if (!drain_accesses(be, NULL)) {
            vipl_store_ordered(&exports->shut, 0);
            rc = VIP_ERROR_RESOURCE;
        }
    }
    vipl_mutex_unlock(&be->exports_lock);
    return rc;
}
