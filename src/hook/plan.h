/* SPDX-License-Identifier: MIT */
/*
 * Sends under a fault plan. Each send gets a number when it first comes, in order, whichever operation it comes by, and keeps
 * it until it is done: so the same sends meet the same faults, and one that a device has begun to send is not struck later.
 * The number is in the VI (struct vipl_vi_plan). A send that is flushed gives its number back, if no later one has been given out.
 *
 * A send that is struck does not take the short path: post_send does what the plan has for it.
 */
#ifndef VIPL_HOOK_PLAN_H
#define VIPL_HOOK_PLAN_H

#include "core/backend.h"
#include "hook/faults.h"
#include "os/os_mutex.h"

enum { VIPL_MAX_DELAYED = 64 };

struct vipl_delayed {
    struct vipl_vi *vi; /* NULL: free */
    uint32_t polls;     /* that are still to come */
};

struct vipl_plan {
    struct vipl_faults faults;
    struct vipl_nic *core; /* constant */
    struct vipl_poll_filter
        *poll_filter;       /* constant once the device is open: what the backend has; NULL: none */
    struct vipl_mutex lock; /* rank BACKEND_TX; guards what follows */
    uint32_t waiting;       /* entries in use; also read without the lock: 0 is the usual case */
    struct vipl_delayed delayed[VIPL_MAX_DELAYED];
};

/* In zeroed memory. */
void vipl_plan_init(struct vipl_plan *plan, struct vipl_nic *core, const char *text);

/* --- the VI's send lock is held --- */

/* Whether the VI's next send may take the short path: no fault strikes it. If that path refuses it, it keeps its number. */
bool vipl_plan_passes(struct vipl_plan *plan, struct vipl_vi *vi);
/* The send has taken it. */
void vipl_plan_passed(struct vipl_vi *vi);
/* post_send, as the plan has it. */
enum vipl_posted vipl_plan_send(struct vipl_plan *plan, const struct vipl_backend *ops,
                                struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send);
/* The VI leaves CONNECTED: what it has not sent is flushed. */
void vipl_plan_revoke(struct vipl_plan *plan, struct vipl_vi *vi);

/* --- no lock held --- */

static inline bool vipl_plan_waits(const struct vipl_plan *plan)
{
    return vipl_load_relaxed(&plan->waiting) > 0;
}
/* The device was polled: delayed sends whose time has come go on. */
void vipl_plan_polled(struct vipl_plan *plan);

#endif
