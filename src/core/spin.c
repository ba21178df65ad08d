/* SPDX-License-Identifier: MIT */
/* Spinning before a sleep. */
#include "core/spin.h"

#include <errno.h>

#include "base/deadline.h"
#include "base/guard.h"
#include "core/nic.h"
#include "core/wait.h"

enum {
    POLLS_TO_YIELD = 16,
    LEAST_NS = 1000,     /* a shorter limit is none */
    WAKE_NS = 20000,     /* what comes at once still takes a sleeper this long, on a slow machine */
    LATE_NS = 200000,    /* a yield that takes longer has run other programs */
    REST_NS = 100000000, /* how long the thread does not spin then */
};

/* What this thread has learnt. */
struct learnt {
    uint32_t halvings;   /* the limit is VIPL_SPIN_US halved so often */
    uint64_t rest_until; /* no spin before this time */
};

static _Thread_local struct learnt learnt VIPL_FAST_THREAD_LOCAL;

static uint64_t limit_of(const struct vipl_nic *nic)
{
    uint64_t ns = (uint64_t)nic->spin_ns >> learnt.halvings;
    return ns < LEAST_NS ? 0 : ns;
}

/* Polls as VipRecvDone() does: where the poll filter knows that a poll would find nothing, it costs
 * a few loads. */
static VIP_RETURN poll_once(struct vipl_nic *nic, const struct vipl_wait_for *what)
{
    if (!vipl_nic_may_skip_poll(nic) && !vipl_nic_poll_fast(nic)) {
        vipl_nic_progress(nic);
    }
    return what->attempt(what->arg, NULL);
}

static VIP_RETURN poll_some(struct vipl_nic *nic, const struct vipl_wait_for *what)
{
    VIP_RETURN rc = VIP_NOT_DONE;
    for (unsigned i = 0; rc == VIP_NOT_DONE && i < POLLS_TO_YIELD && !vipl_nic_is_inherited(nic); i++) {
        rc = poll_once(nic, what);
    }
    return rc;
}

/* Leaves the CPU to another thread. Returns the time afterwards. */
static uint64_t yield_at(uint64_t now)
{
    vipl_yield();
    uint64_t after = vipl_now_ns();
    if (after - now > LATE_NS) {
        learnt.rest_until = after + REST_NS;
    }
    return after;
}

/* Lets in the signals that were kept out, in the state of a sleep. If nothing was found, it is a
 * sleep that is over at once, which says whether a handler ran and which descriptors of the program
 * are ready. */
static int let_signals_in(const struct vipl_nic *nic, const struct vipl_wait_for *what,
                          const struct vipl_signals *before, bool found)
{
    vipl_guard_sleep();
    int rc = found ? 0 : vipl_poll_more(NULL, 0, what->fds, 0, before);
    vipl_signals_let_in(before);
    vipl_guard_wake();
    if (vipl_nic_is_inherited(nic)) {
        return ECHILD;
    }
    return rc == EINTR || rc == EINVAL ? rc : 0;
}

VIP_RETURN vipl_spin_poll(struct vipl_nic *nic, const struct vipl_wait_for *what, uint64_t deadline,
                          struct vipl_spin *spin, int *why)
{
    uint64_t limit = limit_of(nic);
    uint64_t now = vipl_now_ns();
    *why = 0;
    spin->over = now;
    spin->spun = limit != 0 && now < deadline && now >= learnt.rest_until;
    if (!spin->spun) {
        return VIP_NOT_DONE;
    }
    uint64_t end = deadline - now < limit ? deadline : now + limit;
    VIP_RETURN rc = poll_some(nic, what);
    if (rc == VIP_NOT_DONE) {
        struct vipl_signals before;
        vipl_signals_keep_out(&before);
        while (rc == VIP_NOT_DONE && (now = vipl_now_ns()) < end) {
            now = yield_at(now);
            rc = poll_some(nic, what);
        }
        *why = let_signals_in(nic, what, &before, rc != VIP_NOT_DONE);
    }
    spin->over = now;
    return rc;
}

void vipl_spin_learn(const struct vipl_nic *nic, const struct vipl_spin *spin, VIP_RETURN rc)
{
    uint64_t soon = nic->spin_ns < WAKE_NS ? WAKE_NS : nic->spin_ns;
    bool hit = rc != VIP_NOT_DONE && vipl_now_ns() - spin->over < soon;
    if (hit && learnt.halvings > 0) {
        learnt.halvings--;
    } else if (!hit && spin->spun && limit_of(nic) != 0) {
        learnt.halvings++;
    }
}
