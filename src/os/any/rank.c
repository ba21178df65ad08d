/* SPDX-License-Identifier: MIT */
/* The debug check of the lock order: each thread has a bit for each rank that it holds, and aborts
 * when it takes a lock whose rank is not above all of them. */
#include <stdio.h>
#include <stdlib.h>

#include "os/os_mutex.h"

static _Thread_local uint64_t ranks_held;
/* Calls that go on in this thread may hold locks whose bits vipl_rank_forget() has cleared. */
static _Thread_local bool forgotten;

void vipl_rank_push(uint32_t rank, bool ordered)
{
    uint64_t bit = UINT64_C(1) << rank;
    uint64_t forbidden = ordered ? ~(bit - 1) : bit; /* this rank and all above it */
    if ((ranks_held & forbidden) != 0) {
        fprintf(stderr, "vipl: lock order broken: taking rank %u while holding 0x%llx\n", (unsigned)rank,
                (unsigned long long)ranks_held);
        abort();
    }
    ranks_held |= bit;
}

void vipl_rank_pop(uint32_t rank)
{
    ranks_held &= ~(UINT64_C(1) << rank);
}

bool vipl_rank_held(uint32_t rank)
{
    return forgotten || (ranks_held >> rank & 1) != 0;
}

bool vipl_rank_not_held(uint32_t rank)
{
    return (ranks_held >> rank & 1) == 0;
}

void vipl_rank_forget(void)
{
    forgotten = forgotten || ranks_held != 0;
    ranks_held = 0;
}
