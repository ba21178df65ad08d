/* SPDX-License-Identifier: MIT */
/* Time limits of the API, on the clock of vipl_now_ns(). */
#ifndef VIPL_BASE_DEADLINE_H
#define VIPL_BASE_DEADLINE_H

#include <limits.h>

#include "os/os.h"
#include "vipl/vipl.h"

#define VIPL_NO_DEADLINE UINT64_MAX

/* Returns the time `timeout` milliseconds from now. */
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

/* Returns the milliseconds until the deadline, rounded up, for a call that sleeps; 0: the deadline
 * is over; -1: there is no deadline. */
static inline int vipl_ms_left(uint64_t deadline)
{
    const uint64_t ns_per_ms = 1000000;
    if (deadline == VIPL_NO_DEADLINE) {
        return -1;
    }
    uint64_t now = vipl_now_ns();
    uint64_t ms = now >= deadline ? 0 : (deadline - now + ns_per_ms - 1) / ns_per_ms;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

#endif
