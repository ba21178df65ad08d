/* SPDX-License-Identifier: MIT */
/* Launch times; see launch.h. */
#include "dm/rnic/launch.h"

/* The clocks of a card and of a host differ by less than this part. */
#define DRIFT 1000U

uint64_t dm_launch_now(const struct dm_launch *launch, uint64_t now)
{
    return launch->has_origin ? launch->heard + (now - launch->at) : 0;
}

uint64_t dm_launch_latest(const struct dm_launch *launch, uint64_t now)
{
    return launch->has_origin ? dm_launch_now(launch, now) + (now - launch->at) / DRIFT : 0;
}

uint64_t dm_launch_horizon(const struct dm_launch *launch, uint64_t now)
{
    return launch->has_origin ? dm_launch_latest(launch, now) + DM_RNIC_LEAD_NS : 0;
}

uint64_t dm_launch_wait(uint64_t nanoseconds)
{
    return nanoseconds - nanoseconds / DRIFT;
}

uint64_t dm_launch_time(const struct dm_launch *launch, uint64_t due)
{
    return launch->origin + due;
}

/*
 * The frame left some time ago, so that the card's time is this or later. A time that is later than
 * what was thought is right. One that is earlier may be old news, or the host's clock is the faster
 * one: it counts as far as clocks may differ.
 */
static void hear(struct dm_launch *launch, uint64_t since, uint64_t now)
{
    uint64_t thought = dm_launch_now(launch, now);
    uint64_t least = thought - (now - launch->at) / DRIFT;

    launch->heard = since > least ? since : least;
    launch->at = now;
}

void dm_launch_left(struct dm_launch *launch, uint64_t time, uint64_t due, uint64_t now)
{
    uint64_t since;

    if (!launch->has_origin) {
        launch->has_origin = true;
        launch->origin = time;
        launch->at = now;
    }
    since = time - launch->origin;
    hear(launch, since, now);
    launch->last = since;
    if (due > 0 && since > due && since - due > launch->late) {
        launch->late = since - due;
    }
}
