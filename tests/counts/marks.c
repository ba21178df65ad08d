/* SPDX-License-Identifier: MIT */
/*
 * What counts.py sees, the clock, and chance. valgrind writes its counts out at each entry into
 * counts_mark(), and lists the system call that it makes, so both lists have the same parts.
 */
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "counts.h"

/* The program has one thread, and only the library's may ask for the time meanwhile: written before
 * it is counted. */
static bool stopped;
static struct timespec stopped_at;
static uint64_t chance;

__attribute__((noinline, noclone, visibility("default"))) void counts_mark(bool counted)
{
    long none = syscall(SYS_read, -1, NULL, counted ? 1 : 0); /* not by a library in read()'s place */

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

/* As is this one. The system is asked all the same, because calls are counted. */
__attribute__((visibility("default"))) ssize_t getrandom(void *bytes, size_t length, unsigned flags)
{
    long got = syscall(SYS_getrandom, bytes, length, flags);
    unsigned char *at = bytes;

    for (long i = 0; i < got; i++) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        at[i] = (unsigned char)(chance >> 56);
    }
    return got;
}

void counts_choose_chance(uint64_t number)
{
    chance = number;
}

void counts_stop_clock(void)
{
    clock_gettime(CLOCK_MONOTONIC, &stopped_at);
    stopped = true;
}
