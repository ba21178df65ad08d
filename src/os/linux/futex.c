/* SPDX-License-Identifier: MIT */
/* Waiting for a word, by shared futexes: a word in memory that processes share works the same. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"

void vipl_futex_wait(uint32_t *word, uint32_t while_equal)
{
    syscall(SYS_futex, word, FUTEX_WAIT, while_equal, NULL, NULL, 0);
}

void vipl_futex_wake_one(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void vipl_futex_wake_all(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* The system never restarts a futex call with a time limit after a signal handler. */
int vipl_futex_wait_for(uint32_t *word, uint32_t while_equal, int ms)
{
    struct timespec limit = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    if (syscall(SYS_futex, word, FUTEX_WAIT, while_equal, &limit, NULL, 0) == 0) {
        return 0;
    }
    return errno == EINTR || errno == ETIMEDOUT ? errno : 0;
}

void vipl_futex_abandon(void)
{
    /* the kernel knows of each process which of its threads wait */
}
