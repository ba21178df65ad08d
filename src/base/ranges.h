/* SPDX-License-Identifier: MIT */
/*
 * A set of ranges of 64-bit numbers that do not overlap. The set is an intrusive tree, balanced by
 * random priorities, which a peer that chooses the numbers cannot foresee. The caller lets only one
 * thread at a time use a set.
 */
#ifndef VIPL_BASE_RANGES_H
#define VIPL_BASE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range, as a part of the caller's object. The caller sets `first` and `last`; the range includes
 * both. */
struct vipl_range {
    uint64_t first;
    uint64_t last;
    struct vipl_range *lower; /* used by the set, like the next two fields */
    struct vipl_range *higher;
    uint64_t priority;
};

struct vipl_ranges {
    struct vipl_range *root;
    size_t count;
    uint64_t random; /* the state of the generator of priorities */
};

void vipl_ranges_init(struct vipl_ranges *set);
/* Adds a range. False: it overlaps another range of the set. */
bool vipl_ranges_add(struct vipl_ranges *set, struct vipl_range *range);
void vipl_ranges_remove(struct vipl_ranges *set, struct vipl_range *range);
/* Returns the range that includes the number, or the next range above it; NULL: there is none. */
struct vipl_range *vipl_ranges_at_or_after(const struct vipl_ranges *set, uint64_t number);

#endif
