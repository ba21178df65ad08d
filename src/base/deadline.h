/* SPDX-License-Identifier: MIT */
/* Time limits of the API, on the clock of vipl_now_ns(). */
#ifndef VIPL_BASE_DEADLINE_H
#define VIPL_BASE_DEADLINE_H

#include "os/os.h"
#include "vipl/vipl.h"

#define VIPL_NO_DEADLINE UINT64_MAX

/* When `timeout` milliseconds from now are over. */
static inline uint64_t vipl_deadline(VIP_ULONG timeout)
{
    const uint64_t ns_per_ms = 1000000;
    if (timeout == VIP_INFINITE || timeout == 0xFFFFFFFFu) {
        return VIPL_NO_DEADLINE;
    }
    uint64_t now = vipl_now_ns();
    return (VIPL_NO_DEADLINE - now) / ns_per_ms <= timeout ? VIPL_NO_DEADLINE
                                                           : now + (uint64_t)timeout * ns_per_ms;
}

#endif
