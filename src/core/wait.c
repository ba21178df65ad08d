/* SPDX-License-Identifier: MIT */
/* Sleeping and leading. */
#include "core/wait.h"

#include <errno.h>
#include <string.h>

#include "base/deadline.h"
#include "base/deferred.h"
#include "base/guard.h"
#include "core/backend_up.h"
#include "core/nic.h"
#include "core/spin.h"
#include "os/killed.h"

static void wake_locked(struct vipl_list *link)
{
    vipl_waker_signal(VIPL_CONTAINER(link, struct vipl_waiter, link)->waker);
    vipl_list_remove(link);
}

void vipl_wake_one_locked(struct vipl_list *waiters)
{
    if (!vipl_list_empty(waiters)) {
        wake_locked(waiters->next);
    }
}

void vipl_wake_all_locked(struct vipl_list *waiters)
{
    while (!vipl_list_empty(waiters)) {
        wake_locked(waiters->next);
    }
}

void vipl_unlist_locked(struct vipl_list *waiters, struct vipl_waiter *waiter, bool unused)
{
    if (unused && vipl_list_empty(&waiter->link)) {
        vipl_wake_one_locked(waiters);
    }
    vipl_list_remove(&waiter->link);
}

/* Makes the waiter the leader if there is none, or if the service thread leads (which yields to the
 * application); otherwise a follower. Returns true if the waiter leads. */
static bool lead_or_follow(struct vipl_sleepers *s, struct vipl_waiter *waiter, struct vipl_waker *service)
{
    vipl_mutex_lock(&s->lock);
    const struct vipl_waiter *leader = s->leader;
    bool take_over = leader != NULL && leader->waker == service;
    bool lead = leader == NULL || take_over;
    if (lead) {
        vipl_store_ptr(&s->leader, waiter); /* pairs with leave_service() */
    } else {
        vipl_list_append(&s->followers, &waiter->nic_link);
    }
    if (take_over) { /* last, because leave_service() reads `leader` without the lock */
        vipl_waker_signal(service);
    }
    vipl_mutex_unlock(&s->lock);
    return lead;
}

static void leave_sleepers(struct vipl_sleepers *s, struct vipl_waiter *waiter)
{
    vipl_mutex_lock(&s->lock);
    vipl_list_remove(&waiter->nic_link);
    if (s->leader == waiter) {
        /* pass_lead() wakes the next leader when this thread's wait is over. */
        vipl_store_ptr(&s->leader, NULL);
    }
    vipl_mutex_unlock(&s->lock);
}

/* The calling thread has slept, and its wait is over. If no thread leads, wakes one that becomes
 * the leader: a follower, or the service thread if there is no follower. */
static void pass_lead(struct vipl_sleepers *s)
{
    vipl_mutex_lock(&s->lock);
    if (s->leader == NULL && !vipl_list_empty(&s->followers)) {
        vipl_waker_signal(VIPL_CONTAINER(s->followers.next, struct vipl_waiter, nic_link)->waker);
    } else if (s->leader == NULL && s->idle != NULL) {
        struct vipl_waiter *idle = s->idle;
        vipl_store_ptr(&s->idle, NULL); /* pairs with leave_service() */
        vipl_waker_signal(idle->waker);
    }
    vipl_mutex_unlock(&s->lock);
}

static int shorter_timeout(int a, int b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

/* The sleeps of one call, or of the service thread. */
struct sleep {
    struct vipl_nic *nic;
    const struct vipl_wait_for *what; /* NULL: the service thread sleeps */
    struct vipl_waiter *waiter;
    struct vipl_poll_hint hint;
    bool prepared; /* of this sleep: finish_wait() has not followed */
};

/* A call that sleeps, with all that another thread needs to end it (os/killed.h). */
struct call {
    struct sleep sleep;
    struct vipl_waiter waiter;
    struct vipl_wait_for what; /* the caller's, with the copy of its argument */
    uint64_t arg[VIPL_WAIT_ARG / sizeof(uint64_t)];
};
_Static_assert(sizeof(struct call) <= VIPL_SLEEP_MEMORY, "a killed thread's call outlives it");

/* The clean-up of a thread that is cancelled in its sleep, or, by another thread, of one that was
 * killed: no other thread depends on it afterwards. */
static void end_cancelled(void *arg)
{
    struct sleep *s = arg;
    struct vipl_nic *nic = s->nic;
    vipl_guard_wake();
    if (s->prepared) {
        nic->ops->finish_wait(nic->be, &s->hint);
    }
    leave_sleepers(&nic->sleepers, s->waiter);
    vipl_waker_reset(s->waiter->waker);
    s->what->leave(s->what->arg, s->waiter, true);
    pass_lead(&nic->sleepers);
    if (s->what->fds != NULL) {
        vipl_more_fds_end(s->what->fds);
    }
    if (s->what->cancelled != NULL) {
        s->what->cancelled(s->what->arg);
    }
    vipl_nic_put(nic);
    vipl_guard_cancelled();
}

/* The service thread stops leading or being idle. If another thread has already taken its role,
 * that thread may be about to release the lock after it has woken this one; so the lock is not
 * taken. */
static void leave_service(struct vipl_sleepers *s, const struct vipl_waiter *waiter)
{
    if (vipl_load_ptr(&s->leader) == waiter ||
        vipl_load_ptr(&s->idle) == waiter) { /* pair with pass_lead, lead_or_follow */
        vipl_mutex_lock(&s->lock);
        if (s->leader == waiter) {
            vipl_store_ptr(&s->leader, NULL);
        }
        vipl_store_ptr(&s->idle, NULL);
        vipl_mutex_unlock(&s->lock);
    }
}

/* The clean-up of the service thread if it is cancelled in its sleep. */
static void end_service(void *arg)
{
    struct sleep *s = arg;
    if (s->prepared) {
        s->nic->ops->finish_wait(s->nic->be, &s->hint);
    }
    leave_service(&s->nic->sleepers, s->waiter);
    vipl_service_over(s->nic);
}

/* Blocks the thread. Signal handlers that run meanwhile find the thread outside the library. */
static int block(struct sleep *s, const int *fds, unsigned count, int ms)
{
    if (s->what == NULL) {
        return vipl_poll_cancellable(fds, count, NULL, ms, NULL, s->nic->service.cancel, end_service, s);
    }
    const struct vipl_more_fds *more = s->what->fds;
    int rc;
    vipl_guard_sleep();
    int cancel = s->what->cancellable ? vipl_guard.cancel : vipl_cancel_off(); /* is off: never */
    rc = vipl_poll_cancellable(fds, count, more, ms, s->what->mask, cancel, end_cancelled, s);
    vipl_guard_wake();
    return rc;
}

/* Sleeps as the leader: also on the backend's descriptor if it has one, and not longer than the
 * backend's time limit. */
static int sleep_leading(struct sleep *s, int ms)
{
    struct vipl_nic *nic = s->nic;
    nic->ops->prepare_wait(nic->be, &s->hint);
    s->prepared = true;
    vipl_deferred_run();
    int fds[2] = {s->waiter->waker->fd, s->hint.fd};
    int most = shorter_timeout(ms, s->hint.ms);
    bool watches_fds = s->what != NULL && s->what->fds != NULL; /* which are polled also without a sleep */
    /* Without a sleep, the waker has not ended one. */
    int rc = s->hint.ms == 0 && !watches_fds ? VIPL_POLL_OTHERS : block(s, fds, 2, most);
    if (vipl_nic_is_inherited(nic)) {
        return ECHILD;
    }
    s->hint.quiet = rc == VIPL_POLL_PROGRAM || rc == ETIMEDOUT;
    nic->ops->finish_wait(nic->be, &s->hint);
    s->prepared = false;
    return rc == ETIMEDOUT && most != ms ? 0 : rc; /* 0: only the backend's time limit is over */
}

/* One sleep of an enlisted waiter. Returns 0, ETIMEDOUT, EINTR, or ECHILD in a child that was
 * forked meanwhile. */
static int sleep_for(struct sleep *s, uint64_t deadline)
{
    struct vipl_nic *nic = s->nic;
    struct vipl_waiter *waiter = s->waiter;
    int ms = vipl_ms_left(deadline);
    int rc;
    if (ms == 0) {
        return ETIMEDOUT;
    }
    if (lead_or_follow(&nic->sleepers, waiter, &nic->service.waker)) {
        rc = sleep_leading(s, ms);
    } else {
        rc = block(s, &waiter->waker->fd, 1, ms);
    }
    if (vipl_nic_is_inherited(nic)) {
        return ECHILD;
    }
    leave_sleepers(&nic->sleepers, waiter);
    /* The waker was not signalled, and is not reset: a signal from now on ends the next sleep. */
    if (rc == VIPL_POLL_OTHERS || rc == VIPL_POLL_PROGRAM) {
        return 0;
    }
    vipl_waker_reset(waiter->waker);
    return rc;
}

bool vipl_sleep_service(struct vipl_nic *nic, struct vipl_waiter *waiter, bool lead, bool idle, int ms)
{
    struct vipl_sleepers *s = &nic->sleepers;
    if (lead || idle) {
        vipl_mutex_lock(&s->lock);
        lead = lead && s->leader == NULL;
        idle = idle && s->leader != NULL;
        vipl_store_ptr(lead ? &s->leader : &s->idle, lead || idle ? waiter : NULL);
        vipl_mutex_unlock(&s->lock);
    }
    struct sleep sleep = {.nic = nic, .waiter = waiter};
    if (lead) {
        sleep_leading(&sleep, -1);
    } else {
        block(&sleep, &waiter->waker->fd, 1, idle ? -1 : ms);
    }
    leave_service(s, waiter);
    vipl_waker_reset(waiter->waker);
    return idle;
}

void vipl_wake_sleepers(struct vipl_nic *nic)
{
    struct vipl_sleepers *s = &nic->sleepers;
    vipl_mutex_lock(&s->lock);
    const struct vipl_waiter *leader = s->leader;
    if (leader != NULL) {
        vipl_waker_signal(leader->waker);
    }
    for (struct vipl_list *l = s->followers.next; l != &s->followers; l = l->next) {
        vipl_waker_signal(VIPL_CONTAINER(l, struct vipl_waiter, nic_link)->waker);
    }
    vipl_mutex_unlock(&s->lock);
}

/* If no thread leads, a former leader is awake. It polls the backend before it sleeps again, or
 * passes the lead on to a thread that does. */
void vipl_up_wake(struct vipl_nic *nic)
{
    struct vipl_sleepers *s = &nic->sleepers;
    vipl_mutex_lock(&s->lock);
    const struct vipl_waiter *leader = s->leader;
    if (leader != NULL) {
        vipl_waker_signal(leader->waker);
    }
    vipl_mutex_unlock(&s->lock);
}

/* Attempts, sleeps if there is nothing, and attempts again. */
static VIP_RETURN attempt_or_sleep(struct sleep *s, uint64_t deadline, int *why)
{
    const struct vipl_wait_for *what = s->what;
    VIP_RETURN rc = what->attempt(what->arg, s->waiter);
    if (rc == VIP_NOT_DONE) {
        *why = sleep_for(s, deadline);
        if (*why == ECHILD) {
            return VIP_INVALID_PARAMETER;
        }
        /* Before the next attempt: what that attempt finds needs no wake-up any more. */
        what->leave(what->arg, s->waiter, false);
        vipl_nic_progress(s->nic);
        rc = what->attempt(what->arg, NULL);
    }
    return rc;
}

/* The same for a thread that spins first. */
static VIP_RETURN spin_or_sleep(struct sleep *s, uint64_t deadline, int *why)
{
    const struct vipl_wait_for *what = s->what;
    struct vipl_spin spin;
    VIP_RETURN rc = vipl_spin_poll(s->nic, what, deadline, &spin, why);
    if (rc == VIP_NOT_DONE && *why == ECHILD) {
        return VIP_INVALID_PARAMETER;
    }
    bool over = *why != 0 || (what->fds != NULL && vipl_more_fds_are_ready(what->fds));
    bool sleeps = rc == VIP_NOT_DONE && !over;
    if (sleeps) {
        rc = attempt_or_sleep(s, deadline, why);
    }
    vipl_spin_learn(s->nic, &spin, rc, sleeps);
    return rc;
}

static VIP_RETURN wait_once(struct sleep *s, uint64_t deadline, int *why)
{
    *why = 0;
    vipl_nic_progress(s->nic);
    return s->nic->spin_ns == 0 ? attempt_or_sleep(s, deadline, why) : spin_or_sleep(s, deadline, why);
}

/* Returns true, once, if another thread has asked this thread to end its call. */
static bool is_cancelled(const struct vipl_waker *waker)
{
    return waker->cancel != NULL &&
           vipl_exchange(waker->cancel, 0) != 0; /* pairs with the thread that set `cancel` */
}

static VIP_RETURN wait_on(struct sleep *s, uint64_t deadline)
{
    const struct vipl_nic *nic = s->nic;
    const struct vipl_wait_for *what = s->what;
    VIP_RETURN rc = VIP_NOT_DONE;
    while (rc == VIP_NOT_DONE) {
        int why;
        if (vipl_load_relaxed(&nic->closing) != 0) {
            return VIP_INVALID_PARAMETER;
        }
        rc = wait_once(s, deadline, &why);
        if (rc == VIP_NOT_DONE && what->fds != NULL && vipl_more_fds_are_ready(what->fds)) {
            return VIP_NOT_DONE;
        }
        if (rc == VIP_NOT_DONE && why == EINVAL) {
            return VIP_INVALID_PARAMETER;
        }
        if (rc == VIP_NOT_DONE && why == ETIMEDOUT) {
            return VIP_TIMEOUT;
        }
        if (rc == VIP_NOT_DONE && why == EINTR && vipl_load_relaxed(&nic->restart) == 0) {
            return VIP_INTERRUPTED;
        }
        if (rc == VIP_NOT_DONE && is_cancelled(s->waiter->waker)) {
            return VIP_INTERRUPTED;
        }
    }
    return rc;
}

static void begin_call(struct call *call, struct vipl_nic *nic, const struct vipl_wait_for *what,
                       struct vipl_waker *waker)
{
    call->what = *what;
    if (what->arg_bytes > 0) {
        memcpy(call->arg, what->arg, what->arg_bytes);
        call->what.arg = call->arg;
    }
    call->waiter.waker = waker;
    vipl_list_init(&call->waiter.link);
    vipl_list_init(&call->waiter.nic_link);
    call->sleep = (struct sleep){.nic = nic, .what = &call->what, .waiter = &call->waiter};
}

VIP_RETURN vipl_wait(struct vipl_nic *nic, const struct vipl_wait_for *what, uint64_t deadline)
{
    struct call on_stack;
    VIP_RETURN rc = what->attempt(what->arg, NULL);
    if (rc != VIP_NOT_DONE) {
        return rc;
    }
    struct vipl_waker *waker = vipl_thread_waker();
    if (waker == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    struct call *call = vipl_sleep_memory(&on_stack);
    begin_call(call, nic, what, waker);
    rc = wait_on(&call->sleep, deadline);
    if (what->arg_bytes > 0) {
        memcpy(what->arg, call->arg, what->arg_bytes);
    }
    if (!vipl_nic_is_inherited(nic)) {
        pass_lead(&nic->sleepers);
    }
    return rc;
}
