/* SPDX-License-Identifier: MIT */
/* Numbers in network byte order, read and written byte by byte: on every machine,
 * at any alignment. */
#ifndef VIPL_IWARP_BYTES_H
#define VIPL_IWARP_BYTES_H

#include <stdint.h>

static inline void vipl_put16(uint8_t *to, uint16_t v)
{
    to[0] = (uint8_t)(v >> 8);
    to[1] = (uint8_t)v;
}
static inline void vipl_put32(uint8_t *to, uint32_t v)
{
    vipl_put16(to, (uint16_t)(v >> 16));
    vipl_put16(to + 2, (uint16_t)v);
}
static inline void vipl_put64(uint8_t *to, uint64_t v)
{
    vipl_put32(to, (uint32_t)(v >> 32));
    vipl_put32(to + 4, (uint32_t)v);
}
static inline uint16_t vipl_get16(const uint8_t *from)
{
    return (uint16_t)(from[0] << 8 | from[1]);
}
static inline uint32_t vipl_get32(const uint8_t *from)
{
    return (uint32_t)vipl_get16(from) << 16 | vipl_get16(from + 2);
}
static inline uint64_t vipl_get64(const uint8_t *from)
{
    return (uint64_t)vipl_get32(from) << 32 | vipl_get32(from + 4);
}

#endif
