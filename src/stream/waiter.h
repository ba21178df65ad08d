/* SPDX-License-Identifier: MIT */
/* A thread that waits for a stream: other threads may take the stream's messages meanwhile. */
#ifndef VIPL_STREAM_WAITER_H
#define VIPL_STREAM_WAITER_H

#include "base/list.h"
#include "os/os.h"
#include "stream/stream.h"

struct vipl_stream_waiter {
    struct vipl_stream_watch watch;
    struct vipl_list link; /* nic->waiters while no thread uses it; guarded by the device's lock */
    struct vipl_waker waker;
    const void *thread; /* constant while in use: a thread-local address of the thread that waits */
};

#endif
