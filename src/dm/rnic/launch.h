/* SPDX-License-Identifier: MIT */
/*
 * Launch times. The card lets each frame leave at its time, by its own clock, and says when it has
 * left; nothing else tells what time the card has. Here time begins with the first frame, which
 * leaves at once.
 *
 * The sender is given a clock that runs ahead of the card's: its time is the *horizon*, up to which
 * frames are handed over. The lead is 10 ms, for a thread that is not run in time, and a thousandth
 * of the time since the card was heard, for a host whose clock is slower than the card's.
 */
#ifndef VIPL_DM_RNIC_LAUNCH_H
#define VIPL_DM_RNIC_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#define DM_RNIC_LEAD_NS UINT64_C(10000000)

struct dm_launch {
    bool has_origin;
    uint64_t origin; /* by the card's clock: when the first frame left */
    uint64_t heard;  /* the card's time since then, when it was heard last */
    uint64_t at;     /* the host's time then */
    uint64_t late;   /* the longest time by which a frame has left after its launch time */
    uint64_t last;   /* when the last frame left */
};

/* A frame has left, at a time of the card's clock; `due`: the time since the first one at which it
 * was to leave, 0: at once. `now`: the host's time, as below. */
void dm_launch_left(struct dm_launch *launch, uint64_t time, uint64_t due, uint64_t now);
/* The card's time since the first frame: what it is thought to be, and the latest that it can be.
 * 0: no frame has left. */
uint64_t dm_launch_now(const struct dm_launch *launch, uint64_t now);
uint64_t dm_launch_latest(const struct dm_launch *launch, uint64_t now);
uint64_t dm_launch_horizon(const struct dm_launch *launch, uint64_t now);
/* How long the host may wait until the horizon, or the latest time, has come forward so far. */
uint64_t dm_launch_wait(uint64_t nanoseconds);
/* What the card is given as the launch time. `due` > 0, and a frame has left. */
uint64_t dm_launch_time(const struct dm_launch *launch, uint64_t due);

#endif
