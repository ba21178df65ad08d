/* SPDX-License-Identifier: MIT */
/*
 * The card's time. It advances with the system's time, but stands still while the adapter is not
 * scheduled, because its user has stopped it or the machine is too busy. Otherwise the card would
 * consider a peer dead whose answer has arrived and is still unread.
 */
#ifndef ADAPTER_CLOCK_H
#define ADAPTER_CLOCK_H

#include <stdint.h>

struct rnic_clock {
    uint64_t lost; /* nanoseconds of the system's time that the card has not seen */
    /* the system's time at which the adapter planned to run next; UINT64_MAX: when it is woken */
    uint64_t due;
};

static inline void rnic_clock_init(struct rnic_clock *clock, uint64_t now)
{
    *clock = (struct rnic_clock){0, now};
}

/* Returns the card's time at the system's time `now`. The adapter planned to run again at once,
 * unless it has called rnic_clock_sleep() since. */
static inline uint64_t rnic_clock_look(struct rnic_clock *clock, uint64_t now)
{
    /* delays up to this one are ordinary where other processes run too */
    const uint64_t late = 50000000;
    if (now > clock->due && now - clock->due > late) {
        clock->lost += now - clock->due - late;
    }
    clock->due = now;
    return now - clock->lost;
}

/* The adapter plans to sleep until then. */
static inline void rnic_clock_sleep(struct rnic_clock *clock, uint64_t until)
{
    clock->due = until;
}

/* Converts the card's time into the system's. UINT64_MAX (never) stays UINT64_MAX. */
static inline uint64_t rnic_clock_system(const struct rnic_clock *clock, uint64_t time)
{
    return time > UINT64_MAX - clock->lost ? UINT64_MAX : time + clock->lost;
}

#endif
