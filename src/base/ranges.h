/* SPDX-License-Identifier: MIT */
/*
 * A set of ranges of 64-bit numbers that do not overlap: an intrusive tree, balanced by random priorities, which the one who
 * chooses the numbers cannot foresee. The caller sees to it that one thread at a time is in here.
 */
#ifndef VIPL_BASE_RANGES_H
#define VIPL_BASE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Part of what the range is about; `first` and `last`, which belongs to it, are set by the caller. */
struct vipl_range {
    uint64_t first;
    uint64_t last;
    struct vipl_range *lower; /* of the set's, as the next two */
    struct vipl_range *higher;
    uint64_t priority;
};

struct vipl_ranges {
    struct vipl_range *root;
    size_t count;
    uint64_t random; /* state of the priorities */
};

void vipl_ranges_init(struct vipl_ranges *set);
/* False: it overlaps another one. */
bool vipl_ranges_add(struct vipl_ranges *set, struct vipl_range *range);
void vipl_ranges_remove(struct vipl_ranges *set, struct vipl_range *range);
/* The range that has the number, or the next one above it; NULL: there is none. */
struct vipl_range *vipl_ranges_at_or_after(const struct vipl_ranges *set, uint64_t number);

#endif
