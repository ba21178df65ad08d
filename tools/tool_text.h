/* SPDX-License-Identifier: MIT */
/*
 * Words for people and for scripts: names of VIPL codes, numbers with units on the command line,
 * JSON that does not depend on the locale. No function here calls VIPL.
 */
#ifndef VIPL_TOOL_TEXT_H
#define VIPL_TOOL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <vipl/posix.h>

/* Exit codes of every tool. */
enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2, TOOL_INTERRUPTED = 130 };

/* The word that opens each diagnostic; main() sets it. */
extern const char *tool_name;

/* printf()'s formats as C has them: gcc for Windows means Microsoft's by "printf", and clang does
 * not know "gnu_printf". */
#ifdef __clang__
#define TOOL_FORMAT __attribute__((format(printf, 1, 2)))
#else
#define TOOL_FORMAT __attribute__((format(gnu_printf, 1, 2)))
#endif

/* One line on standard error. */
void tool_complain(const char *format, ...) TOOL_FORMAT;

/* The names of the error bits in a descriptor's Status, in `text`, which is returned. */
const char *tool_status_text(VIP_UINT32 status, char *text, size_t room);

/* "unreliable", "delivery", "reception". */
const char *tool_level_text(VIP_RELIABILITY_LEVEL level);
bool tool_parse_level(const char *text, VIP_RELIABILITY_LEVEL *level);

/* A decimal number with an optional K, M or G (powers of 1024), within bounds. */
bool tool_parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *value);

/* Seconds with up to six decimals, in nanoseconds; more than nothing and at most an hour. */
bool tool_parse_seconds(const char *text, uint64_t *nanoseconds);

/* A JSON string with its quotes; bytes outside ASCII become escapes. */
void tool_json_string(FILE *to, const char *text);

/* A number with `decimals` (0 to 6) places and a point, whatever the locale; NaN gives "null". */
void tool_json_number(FILE *to, double value, int decimals);

/* The same into `text`, which is returned; NaN gives "-". */
const char *tool_number_text(double value, int decimals, char *text, size_t room);

/* "tool_name version", for --version. */
void tool_print_version(void);

#endif
