/* SPDX-License-Identifier: MIT */
/*
 * Transfers of an open file that go on while the caller does something else: by io_uring
 * (queue_uring.c) where the library and the kernel have it, else by a thread (queue_thread.c).
 */
#ifndef VIPL_DM_QUEUE_H
#define VIPL_DM_QUEUE_H

#include "dm/store.h"

struct dm_queue;

struct dm_queue_kind {
    const char *name;
    /* NULL: errno says why there is none. */
    struct dm_queue *(*create)(int fd, enum dm_direction direction);
    void (*destroy)(struct dm_queue *queue); /* after the end of all transfers */
    int (*submit)(struct dm_queue *queue, const struct dm_transfer *transfer);
    unsigned (*reap)(struct dm_queue *queue, struct dm_transferred *ended, unsigned room, bool wait);
};

struct dm_queue {
    const struct dm_queue_kind *kind;
};

/* What a transfer has left, and whether a result is its end. */
struct dm_queued {
    struct dm_transfer transfer;
    uint32_t moved; /* bytes */
    int error;
};

/* Takes the result of one read or write, bytes or a negative errno value. False: the rest is to be
 * moved. A read ends early at the end of the file: at 0 bytes, or inside a block of the disk. */
bool dm_queued_ends(struct dm_queued *one, enum dm_direction direction, int64_t result);

extern const struct dm_queue_kind dm_queue_thread;
#if VIPL_DM_URING
extern const struct dm_queue_kind dm_queue_uring;
#endif

#endif
