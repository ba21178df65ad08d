/* SPDX-License-Identifier: MIT */
/*
 * Test data: byte i of a message is a function of a seed and of i alone, the same on every CPU, so
 * a lost, moved, stale or doubled piece of data shows. Buffers that come from tool_guarded_init()
 * carry guard bytes on both sides, which show a write outside the buffer.
 */
#ifndef VIPL_TOOL_PATTERN_H
#define VIPL_TOOL_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What tool_pattern_check() returns when every byte is right. */
#define TOOL_ALL_RIGHT SIZE_MAX

/* Guard bytes on each side of a guarded buffer; a multiple of the descriptor alignment. */
#define TOOL_GUARD_BYTES 64

void tool_pattern_fill(unsigned char *to, size_t length, uint32_t seed);

/* The offset of the first wrong byte, or TOOL_ALL_RIGHT. */
size_t tool_pattern_check(const unsigned char *data, size_t length, uint32_t seed);

/* The bytes that `length` guarded bytes need. */
size_t tool_guarded_size(size_t length);

/* Write the guards into tool_guarded_size(length) bytes at `room`; returns the buffer between. */
unsigned char *tool_guarded_init(unsigned char *room, size_t length);

/* Whether both guards around a buffer from tool_guarded_init() are as they were. */
bool tool_guarded_intact(const unsigned char *buffer, size_t length);

#endif
