/* SPDX-License-Identifier: MIT */
/* Pages of memory that belong to this process alone. */
#include <sys/resource.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach/vm_inherit.h>
#endif

#include "os/os.h"
#include "os/posix/mman.h"

void *vipl_pages_map(size_t bytes, enum vipl_pages when)
{
    int how = MAP_PRIVATE | MAP_ANONYMOUS | (when == VIPL_PAGES_WHEN_TOUCHED ? MAP_NORESERVE : 0);
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, how, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void vipl_pages_unmap(void *pages, size_t bytes)
{
    munmap(pages, bytes);
}

size_t vipl_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

void vipl_keep_from_children(void *base, size_t bytes)
{
#if defined(INHERIT_NONE) /* FreeBSD */
    (void)minherit(base, bytes, INHERIT_NONE);
#elif defined(MAP_INHERIT_NONE) /* NetBSD, OpenBSD */
    (void)minherit(base, bytes, MAP_INHERIT_NONE);
#elif defined(VM_INHERIT_NONE)  /* macOS */
    (void)minherit(base, bytes, VM_INHERIT_NONE);
#else
    (void)madvise(base, bytes, MADV_DONTFORK);
#endif
}

uint64_t vipl_memory_lock_limit(void)
{
    struct rlimit limit;
    bool is_limited =
        geteuid() != 0 && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return is_limited ? (uint64_t)limit.rlim_cur : UINT64_MAX;
}

uint64_t vipl_memory_total(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    return pages > 0 ? (uint64_t)pages * vipl_page_bytes() : 0;
}
