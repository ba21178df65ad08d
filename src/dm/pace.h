/* SPDX-License-Identifier: MIT */
/*
 * When packets are due. A due time is the start plus the sum of all gaps before it, with the
 * remainders of divisions carried on, so that no error adds up: it is never computed from the
 * difference of two readings of a clock. All times have 64 bits.
 */
#ifndef VIPL_DM_PACE_H
#define VIPL_DM_PACE_H

#include <stdint.h>

#include "vipl/device_memory.h"

/* The most that `rate` may be: products of it and of a packet's bits fit into 64 bits. */
#define DM_MAX_RATE UINT64_C(1000000000000000)
#define DM_SAME_PACE UINT64_C(1000000) /* the rate of VIPL_DM_RECORDED that changes nothing */

/* Of one thread. */
struct dm_pace {
    enum vipl_dm_pace kind;
    uint64_t rate;
    uint64_t due;       /* of the packet that is next */
    uint64_t remainder; /* of the divisions so far, in parts of `rate` */
    uint64_t release;   /* when the burst that the packet is in may leave */
    uint32_t burst;     /* packets of one burst */
    uint32_t position;  /* of the packet in its burst */
};

void dm_pace_start(struct dm_pace *pace, enum vipl_dm_pace kind, uint64_t rate, uint32_t burst,
                   uint64_t start);

/* The recording has this gap before the packet that is next. To be called once for each packet. */
void dm_pace_before(struct dm_pace *pace, uint64_t recorded_gap);

/* When the packet that is next may leave; the start itself at the top speed. */
uint64_t dm_pace_release(const struct dm_pace *pace);

/* The packet that was next, of these bytes, leaves. */
void dm_pace_after(struct dm_pace *pace, uint32_t bytes);

#endif
