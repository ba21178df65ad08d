/* SPDX-License-Identifier: MIT */
/*
 * Transfers by a thread: pread() and pwrite(), in the order of submission. `lock` guards the ring,
 * whose entries go from waiting (next..tail) to ended (head..next); the entry at `next` is the
 * thread's alone.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "dm/queue.h"

struct thread_queue {
    struct dm_queue base;
    int fd;                      /* constant */
    enum dm_direction direction; /* constant */
    pthread_t thread;            /* constant */
    pthread_mutex_t lock;
    pthread_cond_t changed;                  /* an entry waits, or has ended, or the queue ends */
    bool is_ending;                          /* lock */
    uint32_t head;                           /* lock: the oldest that has not been reaped */
    uint32_t next;                           /* lock: the one that the thread works on */
    uint32_t tail;                           /* lock: behind the newest */
    struct dm_queued ring[DM_MAX_TRANSFERS]; /* lock, except the one at `next` */
};

bool dm_queued_ends(struct dm_queued *one, enum dm_direction direction, int64_t result)
{
    if (result < 0) {
        one->error = (int)-result;
        return one->error != EINTR && one->error != EAGAIN;
    }
    one->error = 0;
    one->moved += (uint32_t)result;
    if (one->moved == one->transfer.bytes) {
        return true;
    }
    if (direction == DM_READ) {
        return result == 0 || one->moved % 512 != 0;
    }
    one->error = result == 0 ? EIO : 0;
    return result == 0;
}

static void move_whole(const struct thread_queue *queue, struct dm_queued *one)
{
    ssize_t result;

    do {
        uint8_t *at = one->transfer.at + one->moved;
        size_t rest = one->transfer.bytes - one->moved;
        off_t offset = (off_t)(one->transfer.offset + one->moved);
        result = queue->direction == DM_READ ? pread(queue->fd, at, rest, offset)
                                             : pwrite(queue->fd, at, rest, offset);
        result = result < 0 ? -errno : result;
    } while (!dm_queued_ends(one, queue->direction, result));
}

static void *thread_body(void *argument)
{
    struct thread_queue *queue = argument;

    pthread_mutex_lock(&queue->lock);
    while (!queue->is_ending) {
        if (queue->next == queue->tail) {
            pthread_cond_wait(&queue->changed, &queue->lock);
            continue;
        }
        struct dm_queued *one = &queue->ring[queue->next % DM_MAX_TRANSFERS];
        pthread_mutex_unlock(&queue->lock);
        move_whole(queue, one);
        pthread_mutex_lock(&queue->lock);
        queue->next++;
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    return NULL;
}

/* The thread is not for the program's signals. */
static int start_thread(struct thread_queue *queue)
{
    sigset_t all;
    sigset_t before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&queue->thread, NULL, thread_body, queue);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static struct dm_queue *thread_create(int fd, enum dm_direction direction)
{
    struct thread_queue *queue = calloc(1, sizeof(*queue));
    int error;

    if (queue == NULL) {
        return NULL;
    }
    queue->base.kind = &dm_queue_thread;
    queue->fd = fd;
    queue->direction = direction;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    error = start_thread(queue);
    if (error != 0) {
        free(queue);
        errno = error;
        return NULL;
    }
    return &queue->base;
}

static void thread_destroy(struct dm_queue *base)
{
    struct thread_queue *queue = (struct thread_queue *)base;

    pthread_mutex_lock(&queue->lock);
    queue->is_ending = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    pthread_join(queue->thread, NULL);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

static int thread_submit(struct dm_queue *base, const struct dm_transfer *transfer)
{
    struct thread_queue *queue = (struct thread_queue *)base;
    int error = EAGAIN;

    pthread_mutex_lock(&queue->lock);
    if (queue->tail - queue->head < DM_MAX_TRANSFERS) {
        queue->ring[queue->tail++ % DM_MAX_TRANSFERS] = (struct dm_queued){*transfer, 0, 0};
        pthread_cond_broadcast(&queue->changed);
        error = 0;
    }
    pthread_mutex_unlock(&queue->lock);
    return error;
}

static unsigned thread_reap(struct dm_queue *base, struct dm_transferred *ended, unsigned room, bool wait)
{
    struct thread_queue *queue = (struct thread_queue *)base;
    unsigned count = 0;

    pthread_mutex_lock(&queue->lock);
    while (wait && queue->head == queue->next && queue->head != queue->tail) {
        pthread_cond_wait(&queue->changed, &queue->lock);
    }
    for (; count < room && queue->head != queue->next; count++) {
        const struct dm_queued *one = &queue->ring[queue->head++ % DM_MAX_TRANSFERS];
        ended[count] = (struct dm_transferred){one->transfer.cookie, one->error, one->moved};
    }
    pthread_mutex_unlock(&queue->lock);
    return count;
}

const struct dm_queue_kind dm_queue_thread = {"a thread", thread_create, thread_destroy, thread_submit,
                                              thread_reap};
