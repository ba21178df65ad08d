/* SPDX-License-Identifier: MIT */
/*
 * The registration cache of a NIC handle (vipl/cache.h): regions that stay registered while the
 * program does not use them, for the next time that it registers the same memory.
 *
 *     REGISTERING -> LIVE -> DEAD
 *
 * An entry enters the table as REGISTERING, before its memory is watched and registered: an event
 * meanwhile finds it. Only LIVE entries are hits. A DEAD entry, whose memory was taken away, which
 * was evicted, or which never was in the table, still serves its users; when it has none it waits
 * on the list `dead` until a thread of the program ends its region. The thread that is told of
 * events ends no region, because a device or a peer may make that wait.
 *
 * docs/design/registration-cache.md has the proof that no hit is of memory that was taken away.
 */
#ifndef VIPL_CORE_CACHE_H
#define VIPL_CORE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipl/cache.h"

struct vipl_nic;

/* For vipl_cache_acquire(), beside the flags of the program: the memory is the library's own, and
 * nothing takes its pages away before a call of vipl_cache_forget_everywhere(). */
#define VIPL_CACHE_STAYS ((VIP_ULONG)1 << 31)

/* Bodies of the calls of vipl/cache.h, whose arguments are checked but for the contents of
 * *registration. The caller has a reference on the NIC handle, and no lock. */
VIP_RETURN vipl_cache_acquire(struct vipl_nic *nic, void *address, size_t bytes,
                              const VIP_MEM_ATTRIBUTES *attributes, VIP_ULONG flags, VIPX_REGISTRATION *out);
VIP_RETURN vipl_cache_release(struct vipl_nic *nic, const VIPX_REGISTRATION *registration);
void vipl_cache_forget(struct vipl_nic *nic, uintptr_t first, uintptr_t end);
/* The same for all caches of the process. */
void vipl_cache_forget_everywhere(uintptr_t first, uintptr_t end);
/* acquire() and release() for the common case, without a reference on the NIC handle, which need
 * not be a live one: memory that the cache has, and a region that stays in it. They take the
 * cache's lock alone, allocate nothing and, without VIPL_CACHE=verify, make no cancellation point.
 * False, and nothing has happened: the case is another one. */
bool vipl_cache_acquire_fast(void *nic_handle, void *address, size_t bytes,
                             const VIP_MEM_ATTRIBUTES *attributes, VIPX_REGISTRATION *out);
bool vipl_cache_release_fast(void *nic_handle, const VIPX_REGISTRATION *registration);
/* Tells of all memory that has gone by calls that have returned. */
void vipl_cache_statistics(struct vipl_nic *nic, VIPX_CACHE_STATISTICS *out);

/* Ends the regions that have no users: those with a tag, or all if it is NULL, and those whose
 * memory has gone. The caller wants to end the tag, or has found the limit of the device reached.
 * Returns true if a region has ended. */
bool vipl_cache_drop_idle(struct vipl_nic *nic, void *ptag);
/* The NIC handle is being closed: no call uses it, and its regions are about to end all at once. */
void vipl_cache_end(struct vipl_nic *nic);
void vipl_cache_abandon(void); /* in a forked child */

#endif
