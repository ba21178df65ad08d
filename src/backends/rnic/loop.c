/* SPDX-License-Identifier: MIT */
/*
 * Progress: events of the function, which any of its NIC handles handles for all, and completions
 * of the NIC handle's own queue. A thread sleeps on one descriptor for both interrupts. It forgets
 * those that have fired, asks for one interrupt of the completion queue, and then looks once more:
 * what came before is found, and what comes after fires.
 */
#include "backends/rnic/rnic.h"

#include "backends/rnic/conn.h"
#include "backends/rnic/connect.h"
#include "backends/rnic/data.h"
#include "base/deadline.h"

enum {
    POLL_MS = 1,    /* between two polls, if there are no interrupts */
    SOON_MS = 1,    /* between two polls, while another thread polls */
    ROOM_MS = 400,  /* until room for deferred posts is tried again */
    SILENT_MS = 400 /* without a completion, until the card is probed */
};
static const uint64_t ns_per_ms = 1000000;

/* --- opening --- */

static bool watch_fd(struct rnic_nic *nic, int fd)
{
    return fd < 0 || vipl_pollset_add(&nic->waits, fd, nic) == 0;
}

bool vipl_rnic_loop_open(struct rnic_nic *nic)
{
    int events = vipl_rnic_interrupt_fd(nic->rnic, 0);
    int completions = vipl_rnic_interrupt_fd(nic->rnic, nic->vector);
    int end = vipl_rnic_access(nic->rnic)->end_fd;
    int card;
    int ms;
    nic->waits.fd = -1;
    vipl_rnic_wait_hint(nic->rnic, &card, &ms);
    if (events < 0 || completions < 0) {
        return true; /* the thread polls */
    }
    if (vipl_pollset_open(&nic->waits) != 0) {
        return false;
    }
    bool watched = watch_fd(nic, events) && watch_fd(nic, completions) && watch_fd(nic, card) &&
                   (end < 0 || vipl_pollset_add_end(&nic->waits, end, nic) == 0);
    if (!watched) {
        vipl_pollset_close(&nic->waits);
        return false;
    }
    return true;
}

void vipl_rnic_loop_close(struct rnic_nic *nic)
{
    if (nic->waits.fd >= 0) {
        vipl_pollset_close(&nic->waits);
    }
}

/* --- progress --- */

/* Runs the timers that are due and returns when the next one is. The registry's lock is held. */
static uint64_t run_timers(struct rnic_device *device)
{
    uint64_t now = vipl_now_ns();
    uint64_t requests = vipl_rnic_connect_timers(device, now);
    uint64_t ends = vipl_rnic_conn_timers(device, now);
    uint64_t next = requests < ends ? requests : ends;
    vipl_store_relaxed(&device->timed, next == UINT64_MAX ? 0 : 1);
    return next;
}

static void handle_events(struct rnic_device *device)
{
    bool dead = vipl_rnic_is_dead(device->rnic);
    if (dead && vipl_load_relaxed(&device->torn_down) != 0) {
        return;
    }
    if (!dead && !vipl_rnic_has_event(device->rnic) && vipl_load_relaxed(&device->timed) == 0) {
        return;
    }
    if (!vipl_mutex_trylock(&vipl_rnic_registry.lock)) {
        return; /* another thread polls, or this thread will next time */
    }
    if (dead) {
        vipl_rnic_conn_tear_down(device);
    } else {
        vipl_rnic_conn_events(device);
        if (vipl_load_relaxed(&device->timed) != 0) {
            (void)run_timers(device);
        }
    }
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
}

/*
 * A card that is pulled out says nothing: no completion, no event. So one that is silent is asked,
 * whether it owes an answer or not, because a program that waits for a message or a connection
 * wants to know too; one that sleeps only where nothing else would tell it. `rx` is held.
 */
static void watch_card(struct rnic_nic *nic)
{
    uint64_t now = vipl_now_ns();
    if (nic->silent_since == 0) {
        nic->silent_since = now;
    } else if (now - nic->silent_since >= SILENT_MS * ns_per_ms) {
        nic->silent_since = now;
        (void)vipl_rnic_probe(nic->rnic); /* the next poll sees the result */
    }
}

void vipl_rnic_poll(struct vipl_be_nic *be)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    vipl_rnic_progress(nic->rnic);
    handle_events(nic->device);
    if (vipl_mutex_trylock(&nic->rx)) {
        (void)vipl_rnic_data_complete(nic);
        watch_card(nic);
        if (vipl_load_relaxed(&nic->has_wanting) != 0) {
            vipl_rnic_data_make_room(nic);
        }
        vipl_mutex_unlock(&nic->rx);
    }
}

/* --- sleeping --- */

/*
 * A thread that is about to sleep waits for no lock: a signal handler may fork it there, and what
 * another thread holds is never released in the child. It looks again soon instead; until then it
 * forgets no interrupt, for another thread may sleep on it.
 */

/* Interrupts of a vector that several NIC handles share are for all of them: the thread that
 * forgets that one fired tells the others. The registry's lock and rx are held. */
static void clear_shared(struct rnic_nic *nic)
{
    int fd = vipl_rnic_interrupt_fd(nic->rnic, nic->vector);
    if (vipl_poll(&fd, 1, 0, NULL) != 0) {
        return;
    }
    vipl_rnic_interrupt_clear(nic->rnic, nic->vector);
    for (struct vipl_list *l = nic->device->nics.next; l != &nic->device->nics; l = l->next) {
        struct rnic_nic *other = VIPL_CONTAINER(l, struct rnic_nic, link);
        if (other != nic && other->vector == nic->vector) {
            vipl_up_wake(other->core);
        }
    }
}

/* While there are events their interrupt stays, for another thread may sleep on it that has to
 * handle them. */
static void clear_events(struct rnic_nic *nic)
{
    if (vipl_rnic_has_event(nic->rnic)) {
        return;
    }
    vipl_rnic_interrupt_clear(nic->rnic, 0);
    if (vipl_rnic_has_event(nic->rnic)) {
        /* the interrupt that was cleared may have been meant for this NIC handle */
        vipl_up_wake(nic->core);
    }
}

/* What fired before is forgotten first: it fires again if there is still something to take. False:
 * another thread takes completions. */
static bool arm_alone(struct rnic_nic *nic)
{
    bool armed = vipl_mutex_trylock(&nic->rx);
    if (armed) {
        vipl_rnic_interrupt_clear(nic->rnic, nic->vector);
        vipl_rnic_arm_cq(nic->cq);
        vipl_mutex_unlock(&nic->rx);
    }
    return armed;
}

/* Each NIC handle of the vector has armed its queue: the others look again, and arm theirs. */
static bool arm_shared(struct rnic_nic *nic)
{
    if (!vipl_mutex_trylock(&vipl_rnic_registry.lock)) {
        return false;
    }
    bool armed = vipl_mutex_trylock(&nic->rx);
    if (armed) {
        clear_shared(nic);
        vipl_rnic_arm_cq(nic->cq);
        vipl_mutex_unlock(&nic->rx);
    }
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
    return armed;
}

static bool arm(struct rnic_nic *nic)
{
    return vipl_load_relaxed(&nic->shares_vector) != 0 ? arm_shared(nic) : arm_alone(nic);
}

static int shorter(int a, int b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

static int ms_to_timers(struct rnic_device *device)
{
    if (vipl_load_relaxed(&device->timed) == 0) {
        return -1;
    }
    if (!vipl_mutex_trylock(&vipl_rnic_registry.lock)) {
        return SOON_MS;
    }
    uint64_t next = run_timers(device);
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
    return next == UINT64_MAX ? -1 : vipl_ms_left(next);
}

void vipl_rnic_prepare_wait(struct vipl_be_nic *be, struct vipl_poll_hint *hint)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    int fd;
    bool interrupts = nic->waits.fd >= 0;
    if (vipl_load_relaxed(&nic->device->torn_down) != 0) {
        /* Nothing comes from the card any more, and the way to it, which has ended, is readable for
         * ever. */
        hint->fd = hint->ms = -1;
        return;
    }
    bool armed = interrupts && arm(nic);
    if (interrupts) {
        clear_events(nic);
    }
    hint->fd = nic->waits.fd;
    vipl_rnic_wait_hint(nic->rnic, &fd, &hint->ms);
    hint->ms = vipl_rnic_access(nic->rnic)->tells_end ? hint->ms : shorter(hint->ms, SILENT_MS);
    hint->ms = shorter(hint->ms, ms_to_timers(nic->device));
    if (vipl_load_relaxed(&nic->has_wanting) != 0) {
        hint->ms = shorter(hint->ms, ROOM_MS);
    }
    if (!armed) {
        hint->ms = shorter(hint->ms, interrupts ? SOON_MS : POLL_MS);
    }
    if (vipl_rnic_has_event(nic->rnic) ||
        (vipl_rnic_is_dead(nic->rnic) && vipl_load_relaxed(&nic->device->torn_down) == 0)) {
        hint->ms = 0;
    }
}

void vipl_rnic_finish_wait(struct vipl_be_nic *be, const struct vipl_poll_hint *hint)
{
    (void)be;
    (void)hint; /* one more interrupt does no harm */
}
