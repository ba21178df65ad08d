/* SPDX-License-Identifier: MIT */
/*
 * A coarse clock for paths on which reading the time would cost too much: a number that rises by
 * one at least every 200 microseconds, and wraps. Reading it costs a few instructions where every
 * program may read the processor's counter; elsewhere it reads the time.
 */
#ifndef VIPL_OS_TICKS_H
#define VIPL_OS_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os.h"

static inline uint32_t vipl_ticks(void)
{
#if defined(__x86_64__)
    return (uint32_t)(__builtin_ia32_rdtsc() >> 14);
#elif defined(__aarch64__)
    uint64_t count;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return (uint32_t)(count >> 12);
#else
    return (uint32_t)(vipl_now_ns() >> 13);
#endif
}

/* Whether a time has come that is hours away at most. */
static inline bool vipl_ticks_reached(uint32_t time)
{
    return (int32_t)(vipl_ticks() - time) >= 0;
}

#endif
