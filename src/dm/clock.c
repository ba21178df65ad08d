/* SPDX-License-Identifier: MIT */
/* The system's clock; see clock.h. */
#include "dm/clock.h"

#include <time.h>

/* A sleep ends late by at most this, mostly; the rest of the time is spent looking at the clock. */
#define SLEEP_ERROR_NS UINT64_C(60000)

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t clock_now(void *context)
{
    (void)context;
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t dm_clock_day(void)
{
    return read_clock(CLOCK_REALTIME);
}

static void clock_wait_until(void *context, uint64_t time)
{
    uint64_t now = clock_now(context);
    struct timespec until;

    if (time > now && time - now > 2 * SLEEP_ERROR_NS) {
        time -= SLEEP_ERROR_NS;
        until.tv_sec = (time_t)(time / UINT64_C(1000000000));
        until.tv_nsec = (long)(time % UINT64_C(1000000000));
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
}

const struct dm_clock dm_clock_system = {clock_now, clock_wait_until, NULL};
