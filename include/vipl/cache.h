/* SPDX-License-Identifier: MIT */
/**
 * @file cache.h A registration cache: memory that a program registers again and again stays
 * registered in between.
 *
 * A program that does not know its buffers in advance, a message passing library for example,
 * registers each before a transfer and deregisters it afterwards. On a device that has to find and
 * lock the pages this takes longer than the transfer. VipxAcquireMem() and VipxReleaseMem() take
 * the place of VipRegisterMem() and VipDeregisterMem(): a region that is released stays registered,
 * as far as the limits allow, and the next call for the same memory finds it.
 *
 * **When memory goes.** A region must not outlive its pages: if the program gives memory back, by
 * free() for example, and gets other pages at the same address, the device would still use the old
 * ones. The system tells the library of every call that takes private memory away (munmap(), mmap()
 * over it, mremap(), brk(), madvise(); userfaultfd(2) on Linux), and the region is not found any
 * more once that call has returned. This costs the program nothing but that those calls take some
 * microseconds more. Memory of VipxAllocShared() is found until VipxFreeShared(). Other memory of
 * which the system cannot tell that it goes, for example of files, is registered and deregistered
 * each time; so is all memory where the system has no such watch or does not allow it, and with the
 * setting VIPL_PROGRESS=inline or #VIPX_INLINE, as the watch needs a thread. That is slower, and
 * never wrong. VIPX_CACHE_STATISTICS says how often, and why.
 *
 * A program that discards pages by madvise(MADV_DONTNEED) must not acquire the same pages in
 * another thread meanwhile.
 *
 * **mremap().** Linux makes one mapping of private mappings that are neighbours and alike, but not
 * of one that is watched and one that is not yet. So one mremap() of memory that a program has
 * mapped by two calls, directly behind each other, may fail with EFAULT where the first was
 * acquired before the second was mapped. A mapping that was made by one call stays one, but for
 * some microseconds if it is made by another thread just when memory is acquired that was its
 * neighbour.
 *
 * **Limits** (docs/use/settings.md): VIPL_CACHE_REGIONS, VIPL_CACHE_MIB. Beyond them, regions
 * without users are ended, the least recently used first. Idle regions never make another call
 * fail: VipRegisterMem() and VipDestroyPtag() end them where they need it.
 *
 * **Threads and forks.** All functions may be called by any thread at any time, but not in a signal
 * handler (#VIP_ERROR_NOT_SUPPORTED). A forked child has none of its parent's registrations, as it
 * has none of its NIC handles. None is for shareable NIC handles (#VIP_ERROR_NOT_SUPPORTED).
 */
#ifndef VIPL_CACHE_H
#define VIPL_CACHE_H

#include "vipl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------
 * The registration cache: memory that stays registered for the next time.
 * ------------------------------------------------------------------------------------------ */

/** For VipxAcquireMem(): register whole pages around the memory, which makes hits more likely. The
 * peer may then access all bytes of these pages if the attributes allow it to access any. Without
 * RDMA rights whole pages are always registered. */
#define VIPX_WHOLE_PAGES ((VIP_ULONG)1)
/** For VipxAcquireMem(): neither look for the region in the cache nor keep it there. For buffers
 * that stay registered for long, which would only fill the cache. */
#define VIPX_ONCE ((VIP_ULONG)2)

/** Memory that a program has acquired. */
typedef struct _VIPX_REGISTRATION {
    VIP_MEM_HANDLE Handle; /**< For descriptors. VipQueryMem() knows it; VipDeregisterMem() and
                              VipSetMemAttributes() refuse it (#VIP_INVALID_PARAMETER). */
    VIP_PVOID Entry;       /**< For VipxReleaseMem(). */
} VIPX_REGISTRATION;

/**
 * Register memory, or find it registered.
 *
 * A region is found if it contains the memory, has the same protection tag, and has at least the
 * rights that are asked for. Several threads may use one region.
 *
 * @param NicHandle     A NIC handle, not a shareable one.
 * @param Address       The memory, of any alignment.
 * @param Length        Its bytes, at least 1.
 * @param MemAttribs    As for VipRegisterMem(); NULL: the default tag and no RDMA.
 * @param Flags         0, or a sum of #VIPX_WHOLE_PAGES and #VIPX_ONCE.
 * @param Registration  Receives the handle of the region and what VipxReleaseMem() needs.
 * @return VIP_SUCCESS; VIP_INVALID_PARAMETER; VIP_INVALID_PTAG; VIP_INVALID_RDMAREAD;
 *         VIP_ERROR_RESOURCE, also if the device refuses it; VIP_ERROR_NOT_SUPPORTED.
 */
VIPL_API VIP_RETURN VI_CALL VipxAcquireMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_ULONG Length,
                                           VIP_MEM_ATTRIBUTES *MemAttribs, VIP_ULONG Flags,
                                           VIPX_REGISTRATION *Registration);

/**
 * Give memory back that VipxAcquireMem() has returned, once for each such call. No transfer of the
 * program uses it any more. The region may stay registered, and the peer may access it by RDMA as
 * before, until the region is evicted, its memory goes, or VipxForgetMem() is called.
 *
 * @param NicHandle     The NIC handle of VipxAcquireMem().
 * @param Registration  What VipxAcquireMem() has written.
 * @return VIP_SUCCESS; VIP_INVALID_PARAMETER, among others if all users have released it and the
 *         region has ended; VIP_ERROR_NOT_SUPPORTED.
 */
VIPL_API VIP_RETURN VI_CALL VipxReleaseMem(VIP_NIC_HANDLE NicHandle, const VIPX_REGISTRATION *Registration);

/**
 * Make the cache forget memory: no later VipxAcquireMem() finds a region that has any of these
 * bytes. Regions without users end before this returns, the others when their last user releases
 * them. For allocators that take memory away in a way that the system does not tell, and to end a
 * peer's access.
 *
 * @param NicHandle  A NIC handle, not a shareable one.
 * @param Address    The memory.
 * @param Length     Its bytes, at least 1.
 * @return VIP_SUCCESS, also if there was no such region; VIP_INVALID_PARAMETER;
 *         VIP_ERROR_NOT_SUPPORTED.
 */
VIPL_API VIP_RETURN VI_CALL VipxForgetMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_ULONG Length);

/** For VipQuerySystemManagementInfo(): a VIPX_CACHE_STATISTICS. Not of shareable NIC handles:
 * #VIP_ERROR_NOT_SUPPORTED. */
#define VIPX_SMI_CACHE_STATISTICS ((VIP_ULONG)0x56490004)

/** Filled by VipQuerySystemManagementInfo() with #VIPX_SMI_CACHE_STATISTICS. Counters begin at the
 * first VipxAcquireMem() of the NIC handle, and never decrease. */
typedef struct _VIPX_CACHE_STATISTICS {
    VIP_UINT64 Hits;             /**< Calls that found a region. */
    VIP_UINT64 Misses;           /**< Calls that registered one, of which: */
    VIP_UINT64 NotCachedOff;     /**< the cache is off, or the system does not let memory be watched; */
    VIP_UINT64 NotCachedOnce;    /**< #VIPX_ONCE was asked for; */
    VIP_UINT64 NotCachedKind;    /**< memory of a file, or of another kind that cannot be watched; */
    VIP_UINT64 NotCachedWatched; /**< the program itself watches the memory; */
    VIP_UINT64 NotCachedFull;    /**< regions in use leave no room for it. */
    VIP_UINT64 Evicted;          /**< Regions that ended to make room. */
    VIP_UINT64 Invalidated;      /**< Regions whose memory went, or that were forgotten, */
    VIP_UINT64 InvalidatedInUse; /**< and that had users then. */
    VIP_UINT64 Events;           /**< Of memory that went, whether or not regions had it. */
    VIP_UINT64 Waits;            /**< Calls that had to wait for an event to be handled. */
    VIP_UINT64 EndsRefused;      /**< Times that the device refused to end a region, for the present. */
    VIP_UINT64 Stale;            /**< With VIPL_CACHE=verify: hits whose pages were not those registered. */
    VIP_UINT64 Regions;          /**< Now in the cache, or not ended yet, */
    VIP_UINT64 Bytes;            /**< and their bytes. */
} VIPX_CACHE_STATISTICS;

#ifdef __cplusplus
}
#endif

#endif
