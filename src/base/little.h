/* SPDX-License-Identifier: MIT */
/* Little-endian numbers at any alignment. */
#ifndef VIPL_BASE_LITTLE_H
#define VIPL_BASE_LITTLE_H

#include <stdint.h>

static inline uint64_t vipl_get_little(const uint8_t *from, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes; i++) {
        value |= (uint64_t)from[i] << 8 * i;
    }
    return value;
}
static inline uint16_t vipl_get_little16(const uint8_t *from)
{
    return (uint16_t)vipl_get_little(from, 2);
}
static inline uint32_t vipl_get_little32(const uint8_t *from)
{
    return (uint32_t)vipl_get_little(from, 4);
}
static inline uint64_t vipl_get_little64(const uint8_t *from)
{
    return vipl_get_little(from, 8);
}

static inline void vipl_put_little(uint8_t *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

#endif
