/* SPDX-License-Identifier: MIT */
/*
 * Where the completions of a work queue go. By default the program takes them from the queue itself, by its VI. A sink takes
 * them in its place: a completion queue (cq.h), or a ring in memory that several processes share (server/rings.h).
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
    VIPL_WORK_FINISHED, /* its outcome is known; earlier ones are not published yet */
    VIPL_WORK_COMPLETE  /* published: Status is written, the program may reap it */
};

/* A posted descriptor. All fields are guarded by the queue's lock unless they say otherwise. */
struct vipl_work {
    struct vipl_list cq_link; /* guarded by the completion queue's lock */
    struct vipl_queue *queue; /* constant */
    VIP_DESCRIPTOR *descriptor;
    /* Valid from FINISHED on: outcome, and bytes moved. Of a receive that a device has, until then: what becomes of a message
     * that it is too short for, and its length (see vipl_descriptor_read_posted). */
    uint32_t status;
    uint32_t length;
    uint32_t immediate;                   /* received immediate data, if status has VIP_STATUS_IMMEDIATE */
    uint32_t listed;                      /* atomic: a completion queue names it, see vipl_work_is_listed() */
    uint16_t op;                          /* what is under way: VIP_CONTROL_OP_... */
    uint16_t segments;                    /* SegCount when it was admitted */
    uint8_t state;                        /* enum vipl_work_state */
    bool invalid;                         /* of a receive that a device has: any message that it gets fails */
    uint8_t pad[42 - 4 * sizeof(void *)]; /* to 64 bytes: the place in a ring is a shift */
};

/* Whether it is still to be taken out of a completion queue. The work's queue is locked, so it is not put there meanwhile. False: nothing
 * in the completion queue refers to it any more. */
static inline bool vipl_work_is_listed(const struct vipl_work *work)
{
    return vipl_load_acquire(&work->listed) != 0; /* pairs with vipl_cq_unlist_locked() */
}

struct vipl_sink {
    /* The next work of the queue, in posting order, is complete, and its descriptor is written. The queue's lock is held.
     * False: there was no room for it, so the VI fails. */
    bool (*deliver)(struct vipl_sink *sink, struct vipl_work *work); /* constant */
};

/* For an owner of sinks outside core: the server of shared objects. The handles are those of this process. */

/* The queues of a VI on which nothing has been posted deliver to these sinks (send, receive) from now on, and take `limit`
 * descriptors each at most. */
void vipl_sink_attach(void *vi_handle, struct vipl_sink *const sinks[2], uint32_t limit);
/* Of the works that were delivered those before `taken`, counted from the first one, are reaped. A number that cannot be
 * right is ignored. */
void vipl_sink_taken(void *vi_handle, bool recv, uint32_t taken);
/* The service thread of a NIC handle runs for good: its completions are awaited where core does not see it. */
VIP_RETURN vipl_sink_serve(void *nic_handle);

#endif
