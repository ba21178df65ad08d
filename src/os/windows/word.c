/* SPDX-License-Identifier: MIT */
/* Waiting for a word of this process: WaitOnAddress(). */
#include <errno.h>

#include "os/windows/descriptor.h"

void vipl_futex_wait(uint32_t *word, uint32_t while_equal)
{
    (void)WaitOnAddress(word, &while_equal, sizeof(*word), INFINITE);
}

int vipl_futex_wait_for(uint32_t *word, uint32_t while_equal, int ms)
{
    if (WaitOnAddress(word, &while_equal, sizeof(*word), (DWORD)ms)) {
        return 0;
    }
    return GetLastError() == ERROR_TIMEOUT ? ETIMEDOUT : 0;
}

void vipl_futex_wake_one(uint32_t *word)
{
    WakeByAddressSingle(word);
}

void vipl_futex_wake_all(uint32_t *word)
{
    WakeByAddressAll(word);
}

void vipl_futex_abandon(void)
{
    /* there is no fork */
}
