/* SPDX-License-Identifier: MIT */
/* Marks for the compiler: which way a branch goes for most messages, and which functions stay out of a message's path. */
#ifndef VIPL_OS_COMPILER_H
#define VIPL_OS_COMPILER_H

#include <stdbool.h>

#define VIPL_LIKELY(condition) __builtin_expect((condition), true)
#define VIPL_UNLIKELY(condition) __builtin_expect((condition), false)
/* The condition always holds, and the compiler may rely on that. */
#define VIPL_ASSUME(condition) ((condition) ? (void)0 : __builtin_unreachable())
/* A function that few messages call: laid out away from the others, and never inlined. */
#define VIPL_COLD __attribute__((cold, noinline))
/* A function on the path of a message that must not be inlined into its callers. */
#define VIPL_NOINLINE __attribute__((noinline))

#endif
