/* SPDX-License-Identifier: MIT */
/*
 * A work queue: a ring of posted descriptors with four running indices,
 *
 *     reaped <= completed <= executed <= posted
 *
 * The program posts and reaps; a send is executed when the backend has taken it, a receive when a
 * message has claimed it. Works may finish in any order and are published in posting order: the
 * descriptor's Status is written then, once. The ring grows up to the device's limit; the only
 * allocation on the data path, at most log2(limit) times in a queue's life.
 */
#ifndef VIPL_CORE_QUEUE_H
#define VIPL_CORE_QUEUE_H

#include "base/list.h"
#include "core/cq.h"
#include "core/ready_fd.h"
#include "core/sink.h"
#include "os/os_mutex.h"
#include "vipl/vipl.h"

struct vipl_vi;
struct vipl_event;

/* Works that completed without error. */
struct vipl_done {
    uint64_t works;
    uint64_t bytes;
};

/* All fields are guarded by lock unless they say otherwise. */
struct vipl_queue {
    struct vipl_mutex lock; /* rank SEND or RECV */
    struct vipl_work *ring;
    uint32_t capacity; /* a power of two, or 0 */
    uint32_t posted;
    uint32_t executed;
    uint32_t completed;
    uint32_t reaped;
    uint32_t limit;
    bool is_recv;              /* constant */
    bool overrun;              /* a completion found its strict completion queue full */
    struct vipl_vi *vi;        /* constant */
    struct vipl_cq *cq;        /* constant while the VI is live; NULL: none */
    struct vipl_sink *sink;    /* where completions go; NULL: the program takes them from here */
    struct vipl_list waiters;  /* vipl_waiter.link */
    struct vipl_list notifies; /* vipl_event.link, registered handlers */
    struct vipl_ready_fd
        *ready_fd; /* readable while there is something to reap; NULL: the program has not asked for it */
    struct vipl_done done[4]; /* statistics, by VIP_CONTROL_OP_... */
    uint64_t works_failed;    /* completed with an error, including flushed ones */
};

extern const uint32_t vipl_send_status_op[4]; /* the VIP_STATUS_OP_... of a VIP_CONTROL_OP_... */

void vipl_queue_make(struct vipl_queue *q, struct vipl_vi *vi, bool is_recv); /* once, in new memory */
void vipl_queue_open(struct vipl_queue *q, struct vipl_cq *cq, uint32_t limit);
void vipl_queue_reset_stats(struct vipl_queue *q);  /* its statistics */
void vipl_queue_close_locked(struct vipl_queue *q); /* forgets everything, touches no descriptor */

static inline struct vipl_work *vipl_queue_at(struct vipl_queue *q, uint32_t index)
{
    return &q->ring[index & (q->capacity - 1)];
}

VIP_RETURN vipl_queue_post_locked(struct vipl_queue *q, VIP_DESCRIPTOR *descriptor, uint16_t segments);
/* Sets a work's outcome and publishes what is in order. op_bits: VIP_STATUS_OP_... */
void vipl_queue_finish_locked(struct vipl_queue *q, struct vipl_work *work, uint32_t status, uint32_t length);
void vipl_queue_flush_locked(struct vipl_queue *q); /* every unfinished work: DESC_FLUSHED_ERROR */
/* VIP_SUCCESS, VIP_DESCRIPTOR_ERROR or VIP_NOT_DONE; *out NULL in the last case. */
VIP_RETURN vipl_queue_reap_locked(struct vipl_queue *q, VIP_DESCRIPTOR **out);

#endif
