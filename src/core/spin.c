/* SPDX-License-Identifier: MIT */
/* Spinning before a sleep. */
#include "core/spin.h"

#include <errno.h>

#include "base/deadline.h"
#include "base/guard.h"
#include "core/nic.h"
#include "core/wait.h"

enum {
    POLLS = 16,         /* from one look at the clock to the next */
    SHORT_NS = 2000,    /* the shortest limit; signals are not kept out of so short a spin */
    LOOK_NS = 5000,     /* from one look at the program's descriptors to the next */
    PROBE_NS = 1000000, /* from one yield to the next */
    LATE_NS = 10000,    /* a yield that takes longer has run other programs */
    SLICE_NS = 3000000, /* what it costs: the system takes a slice back later */
    SAVED_SHARE = 5,    /* a sleep costs a fifth of VIPL_SPIN_US: 10 us */
    PASSED_SHARE = 64,  /* a 64th of the time may be lost: there are two ends */
    LEARN_SHARE = 8,    /* each short wait counts for an eighth of what is typical */
};

/* What this thread has learnt, in nanoseconds. */
struct learnt {
    int64_t budget;    /* that may be lost by spinning; negative: so much is to be made up for */
    uint64_t counted;  /* the time until which the budget has grown; 0: the thread is new */
    uint64_t probe_at; /* the time from which a spin begins with a yield */
    uint32_t typical;  /* what a short wait takes */
    bool late;         /* other programs have run in the last yield */
};

static _Thread_local struct learnt learnt VIPL_FAST_THREAD_LOCAL;

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* --- the budget --- */

/* At most one spin of the longest kind is saved up. */
static void add(const struct vipl_nic *nic, uint64_t ns)
{
    learnt.budget += (int64_t)sooner(ns, nic->spin_ns);
    if (learnt.budget > (int64_t)nic->spin_ns) {
        learnt.budget = nic->spin_ns;
    }
}

/* Other threads have run in a yield. Once may be chance: a yield is interrupted, too. The second
 * time in succession they need the CPU, and nothing that is saved up counts. */
static void owe(uint64_t away)
{
    if (learnt.late) {
        learnt.budget = learnt.budget < 0 ? learnt.budget : 0;
        away = away < SLICE_NS ? SLICE_NS : away;
    }
    learnt.budget -= (int64_t)away;
}

static void count_time(const struct vipl_nic *nic, uint64_t now)
{
    if (learnt.counted == 0) { /* the first wait may spin for as long as any */
        learnt.budget = nic->spin_ns;
        learnt.typical = nic->spin_ns / 2;
    }
    add(nic, sooner(now - learnt.counted, nic->spin_ns) / PASSED_SHARE);
    learnt.counted = now;
}

/* Returns how long the thread spins; 0: its budget is too small. */
static uint64_t limit_of(const struct vipl_nic *nic)
{
    uint64_t limit = sooner(2 * (uint64_t)learnt.typical + SHORT_NS, nic->spin_ns);
    return learnt.budget < (int64_t)limit ? 0 : limit;
}

/* --- polling --- */

/* Polls as VipRecvDone() does: where the poll filter knows that a poll would find nothing, it costs
 * a few loads. */
static VIP_RETURN poll_once(struct vipl_nic *nic, const struct vipl_wait_for *what)
{
    if (!vipl_nic_may_skip_poll(nic) && !vipl_nic_poll_fast(nic)) {
        vipl_nic_progress(nic);
    }
    return what->attempt(what->arg, NULL);
}

/* Sets *now to the time afterwards. */
static VIP_RETURN poll_until(struct vipl_nic *nic, const struct vipl_wait_for *what, uint64_t end,
                             uint64_t *now)
{
    VIP_RETURN rc = VIP_NOT_DONE;
    while (rc == VIP_NOT_DONE && *now < end && !vipl_nic_is_inherited(nic)) {
        for (unsigned i = 0; rc == VIP_NOT_DONE && i < POLLS && !vipl_nic_is_inherited(nic); i++) {
            rc = poll_once(nic, what);
        }
        *now = vipl_now_ns();
    }
    return rc;
}

/* Looks at the descriptors of the program, and lets in the signals that were kept out, in the state
 * of a sleep: it is one that is over at once. Returns true if it ends the wait; EINTR or EINVAL, if
 * that is the reason, is in *why. */
static bool look_around(const struct vipl_nic *nic, const struct vipl_wait_for *what,
                        const struct vipl_signals *before, int *why)
{
    vipl_guard_sleep();
    int rc = vipl_poll_more(NULL, 0, what->fds, 0, before);
    vipl_guard_wake();
    *why = rc == EINTR || rc == EINVAL ? rc : 0;
    return *why != 0 || vipl_nic_is_inherited(nic) ||
           (what->fds != NULL && vipl_more_fds_are_ready(what->fds));
}

/* Polls with the signals kept out. */
static VIP_RETURN poll_long(struct vipl_nic *nic, const struct vipl_wait_for *what,
                            const struct vipl_signals *before, uint64_t end, uint64_t *now, int *why)
{
    bool watches = what->fds != NULL && what->fds->count > 0;
    bool over = false;
    VIP_RETURN rc = VIP_NOT_DONE;
    while (rc == VIP_NOT_DONE && !over) {
        rc = poll_until(nic, what, watches ? sooner(end, *now + LOOK_NS) : end, now);
        over = rc == VIP_NOT_DONE && (look_around(nic, what, before, why) || *now >= end);
    }
    return rc;
}

/* Lets other threads run. If some did, the next spin begins so, too. Returns false if they did
 * twice in succession. */
static bool has_cpu(uint64_t *now)
{
    uint64_t before = *now;
    vipl_yield();
    *now = vipl_now_ns();
    bool late = *now - before > LATE_NS;
    bool needed = late && learnt.late;
    if (late) {
        owe(*now - before);
    }
    learnt.late = late;
    learnt.probe_at = late ? *now : *now + PROBE_NS;
    return !needed;
}

VIP_RETURN vipl_spin_poll(struct vipl_nic *nic, const struct vipl_wait_for *what, uint64_t deadline,
                          struct vipl_spin *spin, int *why)
{
    uint64_t now = vipl_now_ns();
    *spin = (struct vipl_spin){.begun = now};
    *why = 0;
    count_time(nic, now);
    uint64_t limit = limit_of(nic);
    if (limit == 0 || now >= deadline) {
        return VIP_NOT_DONE;
    }
    bool probes = now >= learnt.probe_at;
    uint64_t start = now;
    uint64_t end = sooner(deadline, now + limit);
    VIP_RETURN rc = probes ? VIP_NOT_DONE : poll_until(nic, what, sooner(end, now + SHORT_NS), &now);
    spin->spun = true;
    if (rc == VIP_NOT_DONE && now < end) {
        struct vipl_signals before;
        vipl_signals_keep_out(&before); /* also of a yield, which may take long */
        if (probes) {
            spin->spun = has_cpu(&now);
            start = now;
            end = spin->spun ? sooner(deadline, now + limit) : now;
        }
        rc = poll_long(nic, what, &before, end, &now, why);
        vipl_guard_sleep();
        vipl_signals_let_in(&before);
        vipl_guard_wake();
    }
    if (rc == VIP_NOT_DONE && vipl_nic_is_inherited(nic)) {
        *why = ECHILD;
    }
    spin->took = now - start;
    return rc;
}

void vipl_spin_learn(const struct vipl_nic *nic, const struct vipl_spin *spin, VIP_RETURN rc, bool slept)
{
    uint64_t took = vipl_now_ns() - spin->begun;
    if (slept) {
        learnt.budget -= (int64_t)spin->took;
    } else if (spin->spun) {
        add(nic, nic->spin_ns / SAVED_SHARE);
    }
    if (rc != VIP_NOT_DONE && took < nic->spin_ns) {
        learnt.typical += (uint32_t)(((int64_t)took - learnt.typical) / LEARN_SHARE);
    }
}
