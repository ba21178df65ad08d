/* SPDX-License-Identifier: MIT */
/*
 * The card's time. It goes as the system's does, but stands still while the adapter is kept from
 * running, by its user or on a machine that is too busy: to the card a peer whose answer lies there
 * unread would have been silent for all that time, and dead.
 */
#ifndef ADAPTER_CLOCK_H
#define ADAPTER_CLOCK_H

#include <stdint.h>

struct rnic_clock {
    uint64_t lost; /* nanoseconds of the system's time that the card has not seen */
    /* the system's time when the adapter meant to look next; UINT64_MAX: when it is woken */
    uint64_t due;
};

static inline void rnic_clock_init(struct rnic_clock *clock, uint64_t now)
{
    *clock = (struct rnic_clock){0, now};
}

/* The card's time, which goes on from the last look: now, unless a sleep is announced. */
static inline uint64_t rnic_clock_look(struct rnic_clock *clock, uint64_t now)
{
    const uint64_t late = 50000000; /* what is usual where others run, too */
    if (now > clock->due && now - clock->due > late) {
        clock->lost += now - clock->due - late;
    }
    clock->due = now;
    return now - clock->lost;
}

static inline void rnic_clock_sleep(struct rnic_clock *clock, uint64_t until)
{
    clock->due = until;
}

/* The system's time for one of the card's, as things are; never stays never. */
static inline uint64_t rnic_clock_system(const struct rnic_clock *clock, uint64_t time)
{
    return time > UINT64_MAX - clock->lost ? UINT64_MAX : time + clock->lost;
}

#endif
