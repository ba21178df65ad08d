/* SPDX-License-Identifier: MIT */
/* What happens with each message, and what does not: for the compiler, which keeps the latter out of the way. */
#ifndef VIPL_BASE_OFTEN_H
#define VIPL_BASE_OFTEN_H

#include <stdbool.h>

#define VIPL_OFTEN(condition) __builtin_expect((condition), true)
#define VIPL_SELDOM(condition) __builtin_expect((condition), false)
/* What is so in any case, and saves the compiler's checks. */
#define VIPL_SURELY(condition) ((condition) ? (void)0 : __builtin_unreachable())
/* A function that is not called for most messages. */
#define VIPL_RARE __attribute__((cold, noinline))
/* A function that other functions on the path of a message call, but that is not to be made part of them. */
#define VIPL_APART __attribute__((noinline))

#endif
