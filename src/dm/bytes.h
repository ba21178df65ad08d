/* SPDX-License-Identifier: MIT */
/* Numbers of either byte order at any alignment, and numbers of this machine's order. */
#ifndef VIPL_DM_BYTES_H
#define VIPL_DM_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t dm_get(const uint8_t *from, unsigned bytes, bool is_big)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) {
        value |= (uint64_t)from[i] << 8 * (is_big ? bytes - 1 - i : i);
    }
    return value;
}
static inline uint16_t dm_get16(const uint8_t *from, bool is_big)
{
    return (uint16_t)dm_get(from, 2, is_big);
}
static inline uint32_t dm_get32(const uint8_t *from, bool is_big)
{
    return (uint32_t)dm_get(from, 4, is_big);
}

static inline void dm_put_little(uint8_t *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

/* pcapng is in the order of its writer: stores of 4 and 2 bytes, as memory of a device wants. */
static inline void dm_put_own32(uint8_t *to, uint32_t value)
{
    memcpy(to, &value, 4);
}
static inline void dm_put_own16(uint8_t *to, uint16_t value)
{
    memcpy(to, &value, 2);
}

/* Whole words of memory that may be a device's, where memcpy() and memset() of some CPUs fault. */
static inline void dm_copy_words(void *to, const void *from, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes / 8; i++) {
        ((volatile uint64_t *)to)[i] = ((const volatile uint64_t *)from)[i];
    }
}
static inline void dm_clear_words(void *to, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes / 8; i++) {
        ((volatile uint64_t *)to)[i] = 0;
    }
}

static inline uint64_t dm_round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}
static inline uint64_t dm_round_down(uint64_t value, uint64_t unit)
{
    return value / unit * unit;
}

/* For times: a sum that cannot be told is the end of time. */
static inline uint64_t dm_add_time(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

#endif
