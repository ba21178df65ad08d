/* SPDX-License-Identifier: MIT */
/* Test hooks: the n-th call that takes a resource of the system fails. */
#include <errno.h>

#include "os/os.h"
#include "os/os_atomic.h"

struct vipl_test_hooks vipl_test_hooks;

bool vipl_resource_fails(int error)
{
    uint32_t *countdown = &vipl_test_hooks.resource_countdown;
    uint32_t left = vipl_load_relaxed(countdown);
    while (left != 0 && !vipl_compare_exchange(countdown, left, left - 1)) {
        left = vipl_load_relaxed(countdown);
    }
    if (left == 1) {
        errno = error;
    }
    return left == 1;
}
