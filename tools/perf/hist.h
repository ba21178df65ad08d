/* SPDX-License-Identifier: MIT */
/*
 * Samples in a bounded histogram: exact below 256, then 128 steps an octave (below 0.8 % wide).
 */
#ifndef VIPL_PERF_HIST_H
#define VIPL_PERF_HIST_H

#include <stddef.h>
#include <stdint.h>

#define PERF_HIST_BUCKETS (256 + 40 * 128)

struct perf_hist {
    uint64_t count;
    uint64_t sum;
    uint64_t least;
    uint64_t most;
    uint64_t buckets[PERF_HIST_BUCKETS];
};

void perf_hist_clear(struct perf_hist *hist);
void perf_hist_add(struct perf_hist *hist, uint64_t value);
void perf_hist_merge(struct perf_hist *to, const struct perf_hist *from);

/* The value that a share (0 to 1) of the samples do not exceed; NaN without samples. */
double perf_hist_at(const struct perf_hist *hist, double share);

/* The median of `count` numbers, which are sorted; NaN of none. */
double perf_median(double *values, size_t count);

#endif
