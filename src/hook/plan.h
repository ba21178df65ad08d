/* SPDX-License-Identifier: MIT */
/*
 * Sends under a fault plan. Each send gets a number, in order, when it first arrives by any
 * operation, and keeps the number until it is done. So the same sends get the same faults, and a
 * send that a device has begun is not struck later. The number is in the VI (struct vipl_vi_plan).
 * A send that is flushed gives its number back, unless a later number has been given out.
 *
 * A send that a rule strikes is not sent by send_short() or rdma_short(): post_send() applies the
 * plan to it.
 */
#ifndef VIPL_HOOK_PLAN_H
#define VIPL_HOOK_PLAN_H

#include "core/backend.h"
#include "hook/faults.h"
#include "os/os_mutex.h"

enum { VIPL_MAX_DELAYED = 64 };

struct vipl_delayed {
    struct vipl_vi *vi; /* NULL: the entry is free */
    uint32_t polls;     /* the send waits for this number of polls */
};

struct vipl_plan {
    struct vipl_faults faults;
    struct vipl_nic *core; /* constant */
    /* The poll filter of the backend; constant after the device was opened; NULL: none. */
    struct vipl_poll_filter *poll_filter;
    struct vipl_mutex lock; /* rank BACKEND_TX; guards the next fields */
    uint32_t waiting;       /* atomic: entries in use, mostly 0; written under lock */
    struct vipl_delayed delayed[VIPL_MAX_DELAYED];
};

/* Initialises a plan in zeroed memory. */
void vipl_plan_init(struct vipl_plan *plan, struct vipl_nic *core, const char *text);

/* --- the VI's send lock is held --- */

/* Returns true if no fault strikes the VI's next send, which may then be sent by send_short() or
 * rdma_short(). If these return false, the send keeps its number. */
bool vipl_plan_passes(struct vipl_plan *plan, struct vipl_vi *vi);
/* The send has been completed by send_short() or rdma_short(). */
void vipl_plan_passed(struct vipl_vi *vi);
/* Does the backend's post_send(), changed by the plan. */
enum vipl_posted vipl_plan_send(struct vipl_plan *plan, const struct vipl_backend *ops,
                                struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send);
/* The VI leaves CONNECTED, and its next send will be flushed. */
void vipl_plan_revoke(struct vipl_plan *plan, struct vipl_vi *vi);

/* --- no lock held --- */

/* Returns true if a send is delayed. */
static inline bool vipl_plan_waits(const struct vipl_plan *plan)
{
    return vipl_load_relaxed(&plan->waiting) > 0;
}
/* The device was polled: delayed sends that have waited long enough go on. */
void vipl_plan_polled(struct vipl_plan *plan);

#endif
