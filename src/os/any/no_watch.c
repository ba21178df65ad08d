/* SPDX-License-Identifier: MIT */
/* A system that tells neither where pages are nor when they are taken away: nothing is watched. */
#include <errno.h>

#include "os/os.h"

int vipl_watch_begin(void (*gone)(uintptr_t first, uintptr_t end))
{
    (void)gone;
    return ENOTSUP;
}

void vipl_watch_end(void)
{
    /* no watch has begun */
}

int vipl_watch_add(uintptr_t first, uintptr_t end)
{
    (void)first;
    (void)end;
    return EINVAL;
}

bool vipl_watch_is_current(bool exactly)
{
    (void)exactly;
    return true;
}

void vipl_watch_abandon(void)
{
    /* no watch has begun */
}

int vipl_memory_populate(uintptr_t first, uintptr_t end)
{
    (void)first;
    (void)end;
    return ENOTSUP;
}

int vipl_physical_pages(const void *address, size_t count, uint64_t *out)
{
    (void)address;
    (void)count;
    (void)out;
    return EPERM;
}
