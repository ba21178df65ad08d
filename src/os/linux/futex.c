/* SPDX-License-Identifier: MIT */
/* Waiting for a word. Shared futexes, so that a word in shared memory works the same. */
#include <linux/futex.h>
#include <sys/syscall.h>
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
