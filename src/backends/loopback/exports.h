/* SPDX-License-Identifier: MIT */
/*
 * The export table: a table, in memory that peers may only read, of what this NIC handle has registered for
 * RDMA. With it a peer that the kernel lets into our memory checks tag, rights and range itself and
 * then reads or writes directly, without our help.
 *
 * Ending a region is synchronous all the same: the entry is taken out, the table gets a new epoch, and the direct accesses that
 * began before that are waited for. Each session has a word in its link's segment, where the peer sees that the session accesses, and
 * under which epoch. New accesses, under the new epoch, do not prolong the wait.
 */
#ifndef VIPL_LOOPBACK_EXPORTS_H
#define VIPL_LOOPBACK_EXPORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os.h"
#include "vipl/vipl.h"

enum { LO_EXPORTS = 2048, LO_EXPORT_PROBES = 16 };

/* One region. `handle` is written last and cleared first. */
struct lo_export {
    uint32_t handle;
    uint32_t tag;
    uint32_t rights; /* 1 write, 2 read */
    uint32_t address_low;
    uint32_t address_high;
    uint32_t bytes_low;
    uint32_t bytes_high;
    uint32_t descriptor; /* vipl_mappable: where the region lies in memory that peers may map */
    uint32_t inode_low;
    uint32_t inode_high;
    uint32_t offset_low;
    uint32_t offset_high;
};

struct lo_exports {
    uint32_t epoch; /* another one each time that something is taken back */
    uint32_t shut;  /* 1: the NIC handle is closing, and nothing in the table holds any more */
    uint32_t pad[14];
    struct lo_export entries[LO_EXPORTS];
};

enum { LO_ACCESSES = 1024, LO_ACCESS_LINES = 64 };

/* What the sessions of one side of a link access, in the link's segment: written by that side. */
struct lo_accesses {
    uint32_t used; /* the words before this one may be used */
    uint32_t pad[15];
    uint32_t words[LO_ACCESSES]; /* see lo_access_epoch() */
};

/*
 * A session's word. 0: the session does not access, and begins with an atomic operation. LO_ACCESS_NO_BARRIER: it does not, but may begin with a
 * plain store, so that who wants to see it makes a barrier in all processes first. Otherwise it accesses, under an epoch
 * that was the table's when it began, or an earlier one.
 */
enum { LO_ACCESS_NO_BARRIER = 2 };

static inline uint32_t lo_access_under(uint32_t epoch)
{
    return epoch << 1 | 1;
}

/* The word of the session in that slot of its link. The first ones each have a cache line. */
static inline uint32_t *lo_access_epoch(struct lo_accesses *accesses, uint32_t slot)
{
    return &accesses
                ->words[slot % LO_ACCESS_LINES * (LO_ACCESSES / LO_ACCESS_LINES) + slot / LO_ACCESS_LINES];
}

struct lo_session;
struct vipl_be_nic;
struct vipl_region_params;

void vipl_lo_exports_add(struct lo_exports *exports, const struct vipl_region_params *region);
/* The entry that the region had, or NULL. No peer finds it any more; one that has found it may still use it. */
struct lo_export *vipl_lo_exports_remove(struct lo_exports *exports, VIP_MEM_HANDLE handle);
/* A region as the table shows it. */
struct lo_exported {
    uint32_t rights; /* 1 write, 2 read */
    uint64_t start;
    uint64_t bytes;
    struct vipl_mappable mappable; /* where its start lies in memory that peers may map */
};

/* What a peer whose VI may name `tag` (0: any) finds in the table. False: nothing. */
bool vipl_lo_exports_find(const struct lo_exports *exports, uint32_t tag, VIP_MEM_HANDLE handle,
                          struct lo_exported *out);

static inline bool lo_exported_allows(const struct lo_exported *region, bool write, uint64_t address,
                                      uint64_t bytes)
{
    uint64_t offset =
        address - region->start; /* of an address before it: larger than any region of a process */
    return (region->rights & (write ? 1u : 2u)) != 0 && offset <= region->bytes &&
           bytes <= region->bytes - offset;
}

/* --- our own table --- */

int vipl_lo_own_exports(
    struct vipl_be_nic *be); /* the descriptor of our export table, made now if need be; -1: none */
/* Waits, for a limited time, until the peer's direct accesses that have begun are over. Called once the
 * session's permission for direct access is withdrawn; takes the export lock and rx. */
void vipl_lo_session_drain_accesses(struct lo_session *session);
VIP_RETURN vipl_lo_region_add(struct vipl_be_nic *be, struct vipl_region_params *region);
VIP_RETURN vipl_lo_region_remove(struct vipl_be_nic *be, VIP_MEM_HANDLE handle);
VIP_RETURN vipl_lo_region_change(struct vipl_be_nic *be, const struct vipl_region_params *region);
VIP_RETURN vipl_lo_regions_end(struct vipl_be_nic *be);

#endif
