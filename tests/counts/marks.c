/* SPDX-License-Identifier: MIT */
/*
 * What counts.py sees, and the clock. valgrind writes its counts out at each entry into counts_mark(), and lists the system call
 * that it makes, so both lists have the same parts.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "counts.h"

/* The program has one thread, and only the library's may ask for the time meanwhile: written before it is counted. */
static bool stopped;
static struct timespec stopped_at;

__attribute__((noinline, noclone, visibility("default"))) void counts_mark(bool counted)
{
    ssize_t none = read(-1, NULL, counted ? 1 : 0);

    (void)none;
}

/* The program's takes the place of the C library's, in the library too. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (stopped && clock == CLOCK_MONOTONIC) {
        *now = stopped_at;
        return 0;
    }
    return (int)syscall(SYS_clock_gettime, clock, now);
}

void counts_stop_clock(void)
{
    clock_gettime(CLOCK_MONOTONIC, &stopped_at);
    stopped = true;
}
