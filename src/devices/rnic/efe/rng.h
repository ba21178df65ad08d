/* SPDX-License-Identifier: MIT */
/* Random numbers from a seed, the same on every machine: the generator splitmix64. */
#ifndef DEVICES_RNIC_EFE_RNG_H
#define DEVICES_RNIC_EFE_RNG_H

#include <stdint.h>

static inline uint64_t rnic_rng_next(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;
    uint64_t x = *state;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* One of 0 to count - 1; count is less than 2^32. */
static inline uint64_t rnic_rng_below(uint64_t *state, uint64_t count)
{
    return (rnic_rng_next(state) >> 32) * count >> 32;
}

#endif
