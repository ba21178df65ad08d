/* SPDX-License-Identifier: MIT */
/*
 * Samples in a histogram of fixed size: exact below 256, then 128 steps an octave, so a percentile
 * is within 0.4 % of the truth and adding a sample allocates nothing. Minimum, maximum and sum are
 * exact.
 */
#include "hist.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXACT 256u
#define STEP_BITS 7
#define STEPS (1u << STEP_BITS)

static size_t bucket_of(uint64_t value)
{
    unsigned top;
    size_t index;

    if (value < EXACT) {
        return (size_t)value;
    }
    top = 63u - (unsigned)__builtin_clzll(value);
    index = EXACT + (size_t)(top - 8) * STEPS + (size_t)((value >> (top - STEP_BITS)) & (STEPS - 1));
    return index < PERF_HIST_BUCKETS ? index : PERF_HIST_BUCKETS - 1;
}

/* The middle of a bucket. */
static double bucket_value(size_t index)
{
    size_t above;
    double width;

    if (index < EXACT) {
        return (double)index;
    }
    above = index - EXACT;
    width = ldexp(1, (int)(above / STEPS) + 8 - STEP_BITS);
    return ((double)(STEPS + above % STEPS) + 0.5) * width - 0.5;
}

void perf_hist_clear(struct perf_hist *hist)
{
    memset(hist, 0, sizeof(*hist));
    hist->least = UINT64_MAX;
}

void perf_hist_add(struct perf_hist *hist, uint64_t value)
{
    hist->count++;
    hist->sum += value;
    if (value < hist->least) {
        hist->least = value;
    }
    if (value > hist->most) {
        hist->most = value;
    }
    hist->buckets[bucket_of(value)]++;
}

void perf_hist_merge(struct perf_hist *to, const struct perf_hist *from)
{
    to->count += from->count;
    to->sum += from->sum;
    to->least = from->least < to->least ? from->least : to->least;
    to->most = from->most > to->most ? from->most : to->most;
    for (size_t i = 0; i < PERF_HIST_BUCKETS; i++) {
        to->buckets[i] += from->buckets[i];
    }
}

double perf_hist_at(const struct perf_hist *hist, double share)
{
    uint64_t rank = (uint64_t)ceil(share * (double)hist->count);
    uint64_t seen = 0;

    if (hist->count == 0) {
        return NAN;
    }
    rank = rank == 0 ? 1 : rank;
    for (size_t i = 0; i < PERF_HIST_BUCKETS; i++) {
        seen += hist->buckets[i];
        if (seen >= rank) {
            double value = bucket_value(i);

            value = value < (double)hist->least ? (double)hist->least : value;
            return value > (double)hist->most ? (double)hist->most : value;
        }
    }
    return (double)hist->most;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

double perf_median(double *values, size_t count)
{
    if (count == 0) {
        return NAN;
    }
    qsort(values, count, sizeof(*values), by_value);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
