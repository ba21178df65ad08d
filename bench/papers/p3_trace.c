/* SPDX-License-Identifier: MIT */
/*
 * A library that a program loads before others (LD_PRELOAD): it writes what the program asks of the
 * registration cache, one line for each call, to a file of the process's own in the folder
 * VIPL_P3_TRACE. p3_policies.py reads these.
 *
 *     a FIRST LENGTH RIGHTS ONCE HIT ENTRY    VipxAcquireMem(), and whether it found a region
 *     r ENTRY                                 VipxReleaseMem()
 *
 * Whether a call is a hit is what the statistics say after it, so that calls are made by one thread
 * at a time: the lock is held meanwhile.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <vipl/cache.h>

typedef VIP_RETURN (*acquire_call)(VIP_NIC_HANDLE, VIP_PVOID, VIP_ULONG, VIP_MEM_ATTRIBUTES *, VIP_ULONG,
                                   VIPX_REGISTRATION *);
typedef VIP_RETURN (*release_call)(VIP_NIC_HANDLE, const VIPX_REGISTRATION *);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *trace;           /* guarded by lock, as the next three */
static acquire_call acquires; /* the library's own */
static release_call releases;
static VIP_UINT64 hits; /* of the last call */

/* Opens the trace and finds the library at the first call; the lock is held. */
static void begin(void)
{
    const char *folder = getenv("VIPL_P3_TRACE");
    char path[4096];
    if (acquires != NULL) {
        return;
    }
    *(void **)&acquires = dlsym(RTLD_NEXT, "VipxAcquireMem");
    *(void **)&releases = dlsym(RTLD_NEXT, "VipxReleaseMem");
    (void)snprintf(path, sizeof(path), "%s/%ld", folder != NULL ? folder : ".", (long)getpid());
    trace = fopen(path, "we");
    if (acquires == NULL || releases == NULL || trace == NULL) {
        (void)fprintf(stderr, "%s: no trace\n", path);
        abort();
    }
}

VIP_RETURN VI_CALL VipxAcquireMem(VIP_NIC_HANDLE NicHandle, VIP_PVOID Address, VIP_ULONG Length,
                                  VIP_MEM_ATTRIBUTES *MemAttribs, VIP_ULONG Flags,
                                  VIPX_REGISTRATION *Registration)
{
    (void)pthread_mutex_lock(&lock);
    begin();
    VIP_RETURN rc = acquires(NicHandle, Address, Length, MemAttribs, Flags, Registration);
    VIPX_CACHE_STATISTICS now;
    if (rc == VIP_SUCCESS &&
        VipQuerySystemManagementInfo(NicHandle, VIPX_SMI_CACHE_STATISTICS, &now) == VIP_SUCCESS) {
        int rights = MemAttribs == NULL
                         ? 0
                         : (MemAttribs->EnableRdmaWrite ? 1 : 0) | (MemAttribs->EnableRdmaRead ? 2 : 0);
        (void)fprintf(trace, "a %p %lu %d %d %d %p\n", Address, (unsigned long)Length, rights,
                      (Flags & VIPX_ONCE) != 0 ? 1 : 0, now.Hits > hits ? 1 : 0, Registration->Entry);
        hits = now.Hits;
    }
    (void)pthread_mutex_unlock(&lock);
    return rc;
}

VIP_RETURN VI_CALL VipxReleaseMem(VIP_NIC_HANDLE NicHandle, const VIPX_REGISTRATION *Registration)
{
    (void)pthread_mutex_lock(&lock);
    begin();
    (void)fprintf(trace, "r %p\n", Registration->Entry);
    (void)fflush(trace); /* a rank of MPI may end by a signal */
    VIP_RETURN rc = releases(NicHandle, Registration);
    (void)pthread_mutex_unlock(&lock);
    return rc;
}
