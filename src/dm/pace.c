/* SPDX-License-Identifier: MIT */
/* Due times; see pace.h. */
#include "dm/pace.h"

#include "dm/bytes.h"

#define NS_PER_SECOND UINT64_C(1000000000)

/* due += part * unit / rate, exactly, in the long run. part % rate * unit fits into 64 bits. */
static void advance(struct dm_pace *pace, uint64_t part, uint64_t unit)
{
    uint64_t whole = part / pace->rate;
    uint64_t rest = part % pace->rate * unit + pace->remainder;

    whole = whole > UINT64_MAX / unit ? UINT64_MAX : whole * unit;
    pace->due = dm_add_time(dm_add_time(pace->due, whole), rest / pace->rate);
    pace->remainder = rest % pace->rate;
}

void dm_pace_start(struct dm_pace *pace, enum vipl_dm_pace kind, uint64_t rate, uint32_t burst,
                   uint64_t start)
{
    pace->kind = kind;
    pace->rate = rate;
    pace->due = start;
    pace->remainder = 0;
    pace->release = start;
    pace->burst = burst > 1 ? burst : 1;
    pace->position = 0;
}

void dm_pace_before(struct dm_pace *pace, uint64_t recorded_gap)
{
    if (pace->kind == VIPL_DM_RECORDED) {
        advance(pace, recorded_gap, DM_SAME_PACE);
    }
    if (pace->position == 0) {
        pace->release = pace->due;
    }
}

uint64_t dm_pace_release(const struct dm_pace *pace)
{
    return pace->release;
}

void dm_pace_after(struct dm_pace *pace, uint32_t bytes)
{
    pace->position = pace->position + 1 < pace->burst ? pace->position + 1 : 0;
    if (pace->kind == VIPL_DM_BITS) {
        /* The bits of a packet are fewer than the bits of a second: no part is lost to `whole`. */
        uint64_t nanobits = (uint64_t)bytes * 8 * NS_PER_SECOND + pace->remainder;
        pace->due = dm_add_time(pace->due, nanobits / pace->rate);
        pace->remainder = nanobits % pace->rate;
    } else if (pace->kind == VIPL_DM_PACKETS) {
        advance(pace, 1, NS_PER_SECOND);
    } else if (pace->kind == VIPL_DM_GAP) {
        pace->due = dm_add_time(pace->due, pace->rate);
    }
}
