/* SPDX-License-Identifier: MIT */
/*
 * Test data; see tool_pattern.h. Eight bytes at a time come from one mixed 64-bit word, taken apart
 * by shifts so that the bytes are the same on either byte order.
 */
#include "tool_pattern.h"

#include <string.h>

#define GUARD_BYTE 0xA5

static uint64_t pattern_word(uint32_t seed, uint64_t index)
{
    uint64_t x = ((uint64_t)seed << 32 | 0x9e3779b9u) + index * UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static unsigned char pattern_byte(uint64_t word, size_t place)
{
    return (unsigned char)(word >> (8 * place));
}

void tool_pattern_fill(unsigned char *to, size_t length, uint32_t seed)
{
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = pattern_word(seed, i / 8);
        size_t n = length - i < 8 ? length - i : 8;

        for (size_t j = 0; j < n; j++) {
            to[i + j] = pattern_byte(word, j);
        }
    }
}

size_t tool_pattern_check(const unsigned char *data, size_t length, uint32_t seed)
{
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = pattern_word(seed, i / 8);
        size_t n = length - i < 8 ? length - i : 8;

        for (size_t j = 0; j < n; j++) {
            if (data[i + j] != pattern_byte(word, j)) {
                return i + j;
            }
        }
    }
    return TOOL_ALL_RIGHT;
}

size_t tool_guarded_size(size_t length)
{
    return length + 2 * TOOL_GUARD_BYTES;
}

unsigned char *tool_guarded_init(unsigned char *room, size_t length)
{
    memset(room, GUARD_BYTE, TOOL_GUARD_BYTES);
    memset(room + TOOL_GUARD_BYTES + length, GUARD_BYTE, TOOL_GUARD_BYTES);
    return room + TOOL_GUARD_BYTES;
}

static bool guard_intact(const unsigned char *guard)
{
    for (size_t i = 0; i < TOOL_GUARD_BYTES; i++) {
        if (guard[i] != GUARD_BYTE) {
            return false;
        }
    }
    return true;
}

bool tool_guarded_intact(const unsigned char *buffer, size_t length)
{
    return guard_intact(buffer - TOOL_GUARD_BYTES) && guard_intact(buffer + length);
}
