/* SPDX-License-Identifier: MIT */
/* Transfers by io_uring, through liburing. One thread at a time. */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

#include "dm/queue.h"

struct uring_queue {
    struct dm_queue base;
    int fd;
    enum dm_direction direction;
    struct io_uring ring;
    unsigned busy; /* entries of `slots` that are on their way */
    bool is_busy[DM_MAX_TRANSFERS];
    struct dm_queued slots[DM_MAX_TRANSFERS];
};

static struct dm_queue *uring_create(int fd, enum dm_direction direction)
{
    struct uring_queue *queue = calloc(1, sizeof(*queue));
    int error;

    if (queue == NULL) {
        return NULL;
    }
    error = io_uring_queue_init(DM_MAX_TRANSFERS, &queue->ring, 0);
    if (error != 0) {
        free(queue);
        errno = -error;
        return NULL;
    }
    queue->base.kind = &dm_queue_uring;
    queue->fd = fd;
    queue->direction = direction;
    return &queue->base;
}

static void uring_destroy(struct dm_queue *base)
{
    struct uring_queue *queue = (struct uring_queue *)base;

    io_uring_queue_exit(&queue->ring);
    free(queue);
}

/* The rest of the transfer of a slot. The ring has an entry for each slot. */
static int start(struct uring_queue *queue, unsigned slot)
{
    const struct dm_queued *one = &queue->slots[slot];
    struct io_uring_sqe *entry = io_uring_get_sqe(&queue->ring);
    uint8_t *at = one->transfer.at + one->moved;
    unsigned rest = one->transfer.bytes - one->moved;
    int result;

    if (entry == NULL) {
        return EAGAIN;
    }
    if (queue->direction == DM_READ) {
        io_uring_prep_read(entry, queue->fd, at, rest, one->transfer.offset + one->moved);
    } else {
        io_uring_prep_write(entry, queue->fd, at, rest, one->transfer.offset + one->moved);
    }
    io_uring_sqe_set_data64(entry, slot);
    do {
        result = io_uring_submit(&queue->ring);
    } while (result == -EINTR);
    return result < 0 ? -result : 0;
}

static int uring_submit(struct dm_queue *base, const struct dm_transfer *transfer)
{
    struct uring_queue *queue = (struct uring_queue *)base;
    unsigned slot = 0;
    int error;

    if (queue->busy == DM_MAX_TRANSFERS) {
        return EAGAIN;
    }
    while (queue->is_busy[slot]) {
        slot++;
    }
    queue->slots[slot] = (struct dm_queued){*transfer, 0, 0};
    error = start(queue, slot);
    if (error == 0) {
        queue->is_busy[slot] = true;
        queue->busy++;
    }
    return error;
}

/* The result of one entry. True: its transfer has ended. */
static bool take_result(struct uring_queue *queue, const struct io_uring_cqe *entry,
                        struct dm_transferred *ended)
{
    unsigned slot = (unsigned)io_uring_cqe_get_data64(entry);
    struct dm_queued *one = &queue->slots[slot];

    if (!dm_queued_ends(one, queue->direction, entry->res)) {
        int error = start(queue, slot);
        if (error == 0) {
            return false;
        }
        one->error = error;
    }
    *ended = (struct dm_transferred){one->transfer.cookie, one->error, one->moved};
    queue->is_busy[slot] = false;
    queue->busy--;
    return true;
}

static unsigned uring_reap(struct dm_queue *base, struct dm_transferred *ended, unsigned room, bool wait)
{
    struct uring_queue *queue = (struct uring_queue *)base;
    unsigned count = 0;

    while (count < room && queue->busy > 0) {
        struct io_uring_cqe *entry;
        int error = wait && count == 0 ? io_uring_wait_cqe(&queue->ring, &entry)
                                       : io_uring_peek_cqe(&queue->ring, &entry);

        if (error == -EINTR) {
            continue;
        }
        if (error != 0) {
            break;
        }
        count += take_result(queue, entry, &ended[count]) ? 1 : 0;
        io_uring_cqe_seen(&queue->ring, entry);
    }
    return count;
}

const struct dm_queue_kind dm_queue_uring = {"io_uring", uring_create, uring_destroy, uring_submit,
                                             uring_reap};
