/* SPDX-License-Identifier: MIT */
/*
 * Numbers in the rings and lists that the driver and the card share. `big`: the byte order that the
 * driver has given to the function. An address may have any alignment.
 */
#ifndef RNIC_ENTRY_H
#define RNIC_ENTRY_H

#include <stdbool.h>
#include <stdint.h>

static inline uint16_t rnic_get16(const uint8_t *from, bool big)
{
    return (uint16_t)(big ? from[0] << 8 | from[1] : from[1] << 8 | from[0]);
}
static inline uint32_t rnic_get32(const uint8_t *from, bool big)
{
    uint32_t first = rnic_get16(from, big);
    uint32_t second = rnic_get16(from + 2, big);
    return big ? first << 16 | second : second << 16 | first;
}
static inline uint64_t rnic_get64(const uint8_t *from, bool big)
{
    uint64_t first = rnic_get32(from, big);
    uint64_t second = rnic_get32(from + 4, big);
    return big ? first << 32 | second : second << 32 | first;
}
static inline void rnic_put16(uint8_t *to, uint16_t value, bool big)
{
    to[big ? 0 : 1] = (uint8_t)(value >> 8);
    to[big ? 1 : 0] = (uint8_t)value;
}
static inline void rnic_put32(uint8_t *to, uint32_t value, bool big)
{
    rnic_put16(to, (uint16_t)(big ? value >> 16 : value), big);
    rnic_put16(to + 2, (uint16_t)(big ? value : value >> 16), big);
}
static inline void rnic_put64(uint8_t *to, uint64_t value, bool big)
{
    rnic_put32(to, (uint32_t)(big ? value >> 32 : value), big);
    rnic_put32(to + 4, (uint32_t)(big ? value : value >> 32), big);
}

#endif
