/* SPDX-License-Identifier: MIT */
/*
 * Integers in the tools' own messages: most significant byte first, byte by byte, so that ends of
 * different word size and byte order understand each other.
 */
#ifndef VIPL_TOOL_WIRE_H
#define VIPL_TOOL_WIRE_H

#include <stdint.h>

static inline void tool_put16(unsigned char *to, uint16_t value)
{
    to[0] = (unsigned char)(value >> 8);
    to[1] = (unsigned char)(value & 0xff);
}

static inline void tool_put32(unsigned char *to, uint32_t value)
{
    tool_put16(to, (uint16_t)(value >> 16));
    tool_put16(to + 2, (uint16_t)(value & 0xffff));
}

static inline void tool_put64(unsigned char *to, uint64_t value)
{
    tool_put32(to, (uint32_t)(value >> 32));
    tool_put32(to + 4, (uint32_t)(value & 0xffffffffu));
}

static inline uint16_t tool_get16(const unsigned char *from)
{
    return (uint16_t)((from[0] << 8) | from[1]);
}

static inline uint32_t tool_get32(const unsigned char *from)
{
    return ((uint32_t)tool_get16(from) << 16) | tool_get16(from + 2);
}

static inline uint64_t tool_get64(const unsigned char *from)
{
    return ((uint64_t)tool_get32(from) << 32) | tool_get32(from + 4);
}

#endif
