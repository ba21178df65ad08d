/* SPDX-License-Identifier: MIT */
/* The clock of senders and captures. Tests have one of their own, in which weeks pass in a
 * second. */
#ifndef VIPL_DM_CLOCK_H
#define VIPL_DM_CLOCK_H

#include <stdint.h>

struct dm_clock {
    uint64_t (*now)(void *context); /* nanoseconds, monotonic */
    /* Sleeps if the time is far, and returns early: the caller looks at the clock again. */
    void (*wait_until)(void *context, uint64_t time);
    void *context;
};

/* The system's. */
extern const struct dm_clock dm_clock_system;
/* The time of day, in nanoseconds since 1970. */
uint64_t dm_clock_day(void);

#endif
