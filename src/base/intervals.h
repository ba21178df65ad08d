/* SPDX-License-Identifier: MIT */
/*
 * A set of intervals of addresses that may overlap. The set is an intrusive tree, ordered by the
 * first address and balanced by random priorities; each node has the largest end below it. Looking
 * for what contains or overlaps an interval takes time in proportion to the logarithm of the
 * number of intervals, and to the number of those found. No function allocates. The caller lets
 * only one thread at a time use a set.
 */
#ifndef VIPL_BASE_INTERVALS_H
#define VIPL_BASE_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The addresses from `first` up to `end`, without `end`, as a part of the caller's object. The
 * caller sets both and does not change them while the interval is in a set; it is not empty. */
struct vipl_interval {
    uintptr_t first;
    uintptr_t end;
    struct vipl_interval *lower; /* used by the set, like the next three fields */
    struct vipl_interval *higher;
    uintptr_t largest_end; /* of this interval and of all below it in the tree */
    uint32_t priority;
};

struct vipl_intervals {
    struct vipl_interval *root;
    size_t count;
    uint32_t random; /* the state of the generator of priorities */
};

/* Returns true if the search is to end with this interval. */
typedef bool vipl_interval_test(struct vipl_interval *interval, void *arg);

void vipl_intervals_init(struct vipl_intervals *set);
void vipl_intervals_add(struct vipl_intervals *set, struct vipl_interval *interval);
/* The interval is in the set. */
void vipl_intervals_remove(struct vipl_intervals *set, struct vipl_interval *interval);
/* Calls the test for the intervals that contain all addresses from `first` up to `end`, until the
 * test returns true. Returns that interval; NULL: there is none. */
struct vipl_interval *vipl_intervals_containing(const struct vipl_intervals *set, uintptr_t first,
                                                uintptr_t end, vipl_interval_test *test, void *arg);
/* The same for the intervals that have at least one of these addresses. The test changes nothing in
 * the set. */
struct vipl_interval *vipl_intervals_overlapping(const struct vipl_intervals *set, uintptr_t first,
                                                 uintptr_t end, vipl_interval_test *test, void *arg);

#endif
