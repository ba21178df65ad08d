/* SPDX-License-Identifier: MIT */
/* Test hooks: one call in which the system gives us something fails; sockets move a few bytes at a time. */
#include <errno.h>

#include "os/os.h"
#include "os/os_atomic.h"

static uint32_t countdown;     /* 0: never, or it has; n: the n-th next call fails */
static uint32_t most_sent;     /* atomic: bytes that a socket moves at once; 0: as many as can be */
static uint32_t most_received; /* atomic, likewise */

bool vipl_resource_fail_after(long count)
{
    return vipl_exchange(&countdown, count < 0 ? 0 : (uint32_t)count) == 0;
}

bool vipl_resource_fails(int error)
{
    uint32_t left = vipl_load_relaxed(&countdown);
    while (left != 0 && !vipl_compare_exchange(&countdown, left, left - 1)) {
        left = vipl_load_relaxed(&countdown);
    }
    if (left == 1) {
        errno = error;
    }
    return left == 1;
}

void vipl_socket_move_at_most(uint32_t send, uint32_t receive)
{
    vipl_store_relaxed(&most_sent, send);
    vipl_store_relaxed(&most_received, receive);
}

uint32_t vipl_socket_most_sent(void)
{
    return vipl_load_relaxed(&most_sent);
}

uint32_t vipl_socket_most_received(void)
{
    return vipl_load_relaxed(&most_received);
}
