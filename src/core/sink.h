/* SPDX-License-Identifier: MIT */
/*
 * Works, and the receivers of their completions. By default the program reaps completions from the
 * work queue, by its VI. A sink receives them instead: a completion queue (cq.h), or a ring in
 * memory that several processes share (server/rings.h).
 */
#ifndef VIPL_CORE_SINK_H
#define VIPL_CORE_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "os/os_atomic.h"
#include "vipl/vipl.h"

struct vipl_queue;

enum vipl_work_state {
    VIPL_WORK_POSTED,
    VIPL_WORK_PENDING,  /* the backend has it */
    VIPL_WORK_FINISHED, /* the result is known; an earlier work is not published yet */
    VIPL_WORK_COMPLETE  /* published: Status is written, the program may reap it */
};

/* A posted descriptor. All fields are guarded by the queue's lock unless they say otherwise. */
struct vipl_work {
    struct vipl_list cq_link; /* guarded by the completion queue's lock */
    struct vipl_queue *queue; /* constant */
    VIP_DESCRIPTOR *descriptor;
    /* From FINISHED on: the result, and the number of bytes moved. Before that, for a receive that
     * a device has: the result for a message that is too long for the memory handed over, and the
     * length up to which that result applies (see vipl_descriptor_read_posted). */
    uint32_t status;
    uint32_t length;
    uint32_t immediate; /* received immediate data, if status has VIP_STATUS_IMMEDIATE */
    uint32_t listed;    /* atomic: on a completion queue, see vipl_work_is_listed() */
    uint16_t op;        /* the operation: VIP_CONTROL_OP_... */
    uint16_t segments;  /* SegCount when the descriptor was admitted */
    uint8_t state;      /* enum vipl_work_state */
    bool invalid;       /* of a receive that a device has: each message that it gets fails */
    /* Up to 64 bytes, so that the index in a ring becomes an address by a shift. */
    uint8_t pad[42 - 4 * sizeof(void *)];
};

/* Returns true if the work is still on a completion queue. The work's queue is locked, so the work
 * is not put on one meanwhile. On false nothing in the completion queue refers to the work any
 * more. */
static inline bool vipl_work_is_listed(const struct vipl_work *work)
{
    return vipl_load_acquire(&work->listed) != 0; /* pairs with vipl_cq_unlist_locked() */
}

struct vipl_sink {
    /* constant: receives the next work, in posting order, that is complete; its descriptor has been
     * written. The queue's lock is held. False: the sink has no room, so the VI fails. */
    bool (*deliver)(struct vipl_sink *sink, struct vipl_work *work);
};

/* The next functions are for an owner of sinks outside core: the server of shared objects. The
 * handles are handles of this process. */

/* Makes the queues of a VI deliver to these sinks (send, receive), and limits each queue to `limit`
 * descriptors. Nothing has been posted on the VI yet. */
void vipl_sink_attach(void *vi_handle, struct vipl_sink *const sinks[2], uint32_t limit);
/* Reaps the first `taken` works that were delivered, counted since the VI was created. An
 * impossible number is ignored. */
void vipl_sink_taken(void *vi_handle, bool recv, uint32_t taken);
/* Keeps the service thread of a NIC handle running for good: threads that core does not know wait
 * for its completions. */
VIP_RETURN vipl_sink_serve(void *nic_handle);

#endif
