/* SPDX-License-Identifier: MIT */
/* Hints for the compiler: which way a branch mostly goes, and which functions stay out of the data
 * path. */
#ifndef VIPL_OS_COMPILER_H
#define VIPL_OS_COMPILER_H

#include <stdbool.h>

#define VIPL_LIKELY(condition) __builtin_expect((condition), true)
#define VIPL_UNLIKELY(condition) __builtin_expect((condition), false)
/* Promises the compiler that the condition holds. */
#define VIPL_ASSUME(condition) ((condition) ? (void)0 : __builtin_unreachable())
/* Marks a function that few messages call: it is laid out away from the others, and never
 * inlined. */
#define VIPL_COLD __attribute__((cold, noinline))
/* Marks a function on the data path that must not be inlined into its callers. */
#define VIPL_NOINLINE __attribute__((noinline))
/* Marks a function whose parameter number `format` is a format of printf(), for the parameters from
 * number `first` on. gcc for Windows means Microsoft's formats by "printf"; clang does not know
 * "gnu_printf". */
#ifdef __clang__
#define VIPL_FORMAT(format_number, first) __attribute__((format(printf, format_number, first)))
#else
#define VIPL_FORMAT(format_number, first) __attribute__((format(gnu_printf, format_number, first)))
#endif

#endif
