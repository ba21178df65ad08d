/* SPDX-License-Identifier: MIT */
/*
 * The export table lists the memory that this NIC handle has registered for RDMA. It lies in memory
 * that peers may only read. A peer that the kernel allows to access this process's memory checks
 * tag, rights and range in the table itself, and then reads or writes without a call of this
 * process.
 *
 * Ending a region is synchronous nevertheless: the entry is removed, the table gets a new epoch,
 * and the direct accesses that began under an older epoch are waited for. Each session has a word
 * in its link's segment, by which it shows that it accesses, and under which epoch the access
 * began. Accesses that begin later, under the new epoch, do not prolong the wait.
 */
#ifndef VIPL_LOOPBACK_EXPORTS_H
#define VIPL_LOOPBACK_EXPORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os.h"
#include "vipl/vipl.h"

enum { LO_EXPORTS = 2048, LO_EXPORT_PROBES = 16, LO_EXPORT_PARTS = 32 };

/* The entry of one region. `handle` is written last and cleared first; 0: the entry is free. */
struct lo_export {
    uint32_t handle;
    uint32_t tag;
    uint32_t rights; /* 1 write, 2 read */
    uint32_t address_low;
    uint32_t address_high;
    uint32_t bytes_low;
    uint32_t bytes_high;
    /* this and the next four: vipl_mappable, where the region lies in memory that peers may map */
    uint32_t descriptor;
    uint32_t inode_low;
    uint32_t inode_high;
    uint32_t offset_low;
    uint32_t offset_high;
};

struct lo_exports {
    uint32_t epoch; /* incremented each time that something is revoked */
    uint32_t shut;  /* 1: the NIC handle is closing, and all entries are revoked */
    /* a bit for each part of the table: the part has memory. Others have no entry, and nobody reads
     * them, for that would allocate their memory */
    uint32_t backed;
    uint32_t pad[13];
    struct lo_export entries[LO_EXPORTS];
};

/* Returns the bit of the part that an entry is in. */
static inline uint32_t lo_export_part(uint32_t entry)
{
    return UINT32_C(1) << entry / (LO_EXPORTS / LO_EXPORT_PARTS);
}

enum { LO_ACCESSES = 1024, LO_ACCESS_LINES = 64 };

/* The accesses of the sessions of one side of a link, in the link's segment. Written by that
 * side. */
struct lo_accesses {
    uint32_t used; /* the number of words that may be in use */
    uint32_t pad[15];
    uint32_t words[LO_ACCESSES]; /* see lo_access_epoch() */
};

/*
 * The values of a session's word. 0: the session does not access, and will begin by an atomic
 * store. LO_ACCESS_NO_BARRIER: the session does not access, but may begin by a plain store: a
 * process that wants to see the store first makes a barrier in all processes.
 * lo_access_under(epoch): the session accesses; the epoch is the table's when the access began, or
 * an earlier one.
 */
enum { LO_ACCESS_NO_BARRIER = 2 };

static inline uint32_t lo_access_under(uint32_t epoch)
{
    return epoch << 1 | 1;
}

/* Returns the word of the session in that slot of its link. The first LO_ACCESS_LINES slots have a
 * cache line each. */
static inline uint32_t *lo_access_epoch(struct lo_accesses *accesses, uint32_t slot)
{
    return &accesses
                ->words[slot % LO_ACCESS_LINES * (LO_ACCESSES / LO_ACCESS_LINES) + slot / LO_ACCESS_LINES];
}

struct lo_session;
struct vipl_be_nic;
struct vipl_region_params;

/* Adds a region. If all its LO_EXPORT_PROBES places are taken, or there is no memory for them, the
 * region is left out, and its RDMA goes through the rings. The export lock is held. */
void vipl_lo_exports_add(struct lo_exports *exports, const struct vipl_region_params *region);
/* Removes a region, and returns the entry that it had, or NULL. No peer finds the region any more;
 * a peer that has found it may still access it. The export lock is held. */
struct lo_export *vipl_lo_exports_remove(struct lo_exports *exports, VIP_MEM_HANDLE handle);
/* A region as read from an export table. */
struct lo_exported {
    uint32_t rights; /* 1 write, 2 read */
    uint64_t start;
    uint64_t bytes;
    /* where the start of the region lies in memory that peers may map */
    struct vipl_mappable mappable;
};

/* Called by the peer: looks up a region that a VI with the protection tag `tag` (0: any) may
 * access. Returns false if there is none. */
bool vipl_lo_exports_find(const struct lo_exports *exports, uint32_t tag, VIP_MEM_HANDLE handle,
                          struct lo_exported *out);

/* Whether the region allows an access to that range. */
static inline bool lo_exported_allows(const struct lo_exported *region, bool write, uint64_t address,
                                      uint64_t bytes)
{
    uint64_t offset =
        address - region->start; /* of an address before it: larger than any region of a process */
    return (region->rights & (write ? 1u : 2u)) != 0 && offset <= region->bytes &&
           bytes <= region->bytes - offset;
}

/* --- this NIC handle's table --- */

/* Returns the descriptor of the export table, which is made if it is missing. -1: no resources.
 * Takes the export lock. */
int vipl_lo_own_exports(struct vipl_be_nic *be);
/* Waits, for a limited time, until the peer's direct accesses that have begun are over. Called once
 * the session's permission for direct access is withdrawn; takes the export lock and rx. */
void vipl_lo_session_drain_accesses(struct lo_session *session);
/* As vipl_backend.region_add, .region_remove, .region_change and .regions_end. They take the export
 * lock. */
VIP_RETURN vipl_lo_region_add(struct vipl_be_nic *be, struct vipl_region_params *region);
VIP_RETURN vipl_lo_region_remove(struct vipl_be_nic *be, VIP_MEM_HANDLE handle);
VIP_RETURN vipl_lo_region_change(struct vipl_be_nic *be, const struct vipl_region_params *region);
VIP_RETURN vipl_lo_regions_end(struct vipl_be_nic *be);

#endif
