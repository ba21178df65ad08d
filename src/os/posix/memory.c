/* SPDX-License-Identifier: MIT */
/* The allocator behind vipl_alloc(), with the hook by which tests make one allocation fail. */
#include <stdlib.h>
#include <string.h>

#include "os/os.h"
#include "os/os_atomic.h"

static uint32_t fail_countdown; /* 0: never; n: the n-th next allocation fails */

void vipl_alloc_fail_after(long count)
{
    vipl_store_relaxed(&fail_countdown, count < 0 ? 0 : (uint32_t)count);
}

static bool must_fail(void)
{
    return vipl_load_relaxed(&fail_countdown) != 0 && vipl_fetch_add(&fail_countdown, (uint32_t)-1) == 1;
}

void *vipl_alloc(size_t bytes)
{
    return must_fail() ? NULL : malloc(bytes);
}

void *vipl_zalloc(size_t bytes)
{
    return must_fail() ? NULL : calloc(1, bytes);
}

void *vipl_alloc_aligned(size_t bytes, size_t alignment)
{
    void *p = NULL;
    if (must_fail() || posix_memalign(&p, alignment, bytes) != 0) {
        return NULL;
    }
    return memset(p, 0, bytes);
}

void vipl_free(void *p)
{
    free(p);
}
