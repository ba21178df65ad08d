/* SPDX-License-Identifier: MIT */
/* Taking completions of shared objects off their boards, and sleeping until there are some. */
#include <errno.h>
#include <string.h>

#include "core/reentry.h"
#include "core/share.h"
#include "core/wait.h"

static struct vipl_vi_board *vi_board(const void *vi)
{
    struct vipl_arena *arena = vipl_share_arena();
    uint32_t slot = vipl_handle_slot(vi);
    if (arena == NULL || vipl_handle_kind(vi) != VIPL_KIND_VI || slot >= VIPL_SHARE_VIS) {
        return NULL;
    }
    struct vipl_vi_board *board = &arena->vis[slot];
    return vipl_load_ptr((void *const *)&board->handle) == vi && !vipl_share_has_dropped(vi) ? board : NULL;
}

static struct vipl_cq_board *cq_board(const void *cq)
{
    struct vipl_arena *arena = vipl_share_arena();
    uint32_t slot = vipl_handle_slot(cq);
    if (arena == NULL || vipl_handle_kind(cq) != VIPL_KIND_CQ || slot >= VIPL_SHARE_CQS) {
        return NULL;
    }
    struct vipl_cq_board *board = &arena->cqs[slot];
    return vipl_load_ptr((void *const *)&board->handle) == cq && !vipl_share_has_dropped(cq) ? board : NULL;
}

/* --- bells ---
 * A bell rings while its `rung` is set: who sees something complete sets it, and writes the descriptor if it was not set.
 * Who finds nothing may hush it: empties the descriptor, clears `rung`, looks again, and rings it anew if there is
 * something after all. So it may ring in vain once, but never be silent in vain. If who hushes is killed in between,
 * the keeper rings. */

static void hush(struct vipl_waker *bell, uint32_t *rung)
{
    vipl_waker_reset(bell);
    vipl_exchange(rung, 0); /* before the look that follows; pairs with vipl_board_bell_ring()'s exchange */
}

static void ring(struct vipl_waker *bell, uint32_t *rung)
{
    if (vipl_exchange(rung, 1) == 0) {
        vipl_waker_signal(bell);
    }
}

/* What a sleeper of either kind needs. */
struct source {
    const void *handle;
    const void *nic; /* its NIC handle */
    bool recv;
    uint32_t *rung;
    bool (*ready)(const struct source *source); /* something is there, or the object is not */
    VIP_RETURN (*take)(struct source *source);  /* NOT_DONE: nothing there */
    struct vipl_vi_board *vi_board;
    struct vipl_cq_board *cq_board;
    VIP_DESCRIPTOR *descriptor;
    void *vi;
    VIP_BOOLEAN is_recv;
};

static int left_ms(uint64_t deadline)
{
    enum { NS_PER_MS = 1000000, LONGEST = 3600000 };
    if (deadline == VIPL_NO_DEADLINE) {
        return -1;
    }
    uint64_t now = vipl_now_ns();
    uint64_t ms = now >= deadline ? 0 : (deadline - now + NS_PER_MS - 1) / NS_PER_MS;
    return ms > LONGEST ? LONGEST : (int)ms;
}

/* Where this process has a bell, it is silent once there is nothing to take. */
static void quiet_if_empty(const struct source *source)
{
    struct vipl_waker *bell;
    if (vipl_load_relaxed(source->rung) == 0 || source->ready(source) ||
        (bell = vipl_share_known_bell(source->handle, source->recv)) == NULL) {
        return;
    }
    hush(bell, source->rung);
    if (source->ready(source)) {
        ring(bell, source->rung);
    }
}

/* The thread is being cancelled in its sleep: it holds nothing. */
static void end_cancelled(void *unused)
{
    (void)unused;
    vipl_wake_up();
    vipl_leave_cancelled();
}

/* One sleep. VIP_NOT_DONE: look again. That is twice a second at least: no bell says that another thread has dropped
 * this process's reference, and a process that is stopped while it hushes has taken the ring of all. */
static VIP_RETURN sleep_once(const struct source *source, struct vipl_waker *bell, uint64_t deadline,
                             const void *mask)
{
    enum { LOOK_MS = 500 };
    int ms = left_ms(deadline);
    if (ms == 0) {
        return VIP_TIMEOUT;
    }
    ms = ms < 0 || ms > LOOK_MS ? LOOK_MS : ms;
    hush(bell, source->rung);
    if (source->ready(source)) {
        ring(bell, source->rung);
        return VIP_NOT_DONE;
    }
    int const fds[2] = {bell->fd, vipl_share_lifeline()};
    vipl_doze();
    int why = vipl_poll_cancellable(fds, 2, ms, mask, vipl_here.cancel, end_cancelled, NULL);
    vipl_wake_up();
    if (why == EINTR && !vipl_share_restarts(source->nic)) {
        return VIP_INTERRUPTED;
    }
    return why == 0 && !vipl_share_keeper_lives() ? VIP_ERROR_RESOURCE : VIP_NOT_DONE;
}

static VIP_RETURN wait_for(struct source *source, VIP_ULONG timeout, const void *mask)
{
    VIP_RETURN rc = source->take(source);
    if (rc != VIP_NOT_DONE) {
        return rc;
    }
    uint64_t deadline = vipl_deadline(timeout);
    struct vipl_waker *bell = vipl_share_bell(source->handle, source->recv);
    if (bell == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    while (rc == VIP_NOT_DONE) {
        VIP_RETURN slept = sleep_once(source, bell, deadline, mask);
        rc = source->take(source);
        if (rc == VIP_NOT_DONE && slept != VIP_NOT_DONE) {
            return slept;
        }
    }
    return rc;
}

/* Nothing to take: a program that asks again and again is told if there will never be anything. One look is a system
 * call, so there are few. */
static VIP_RETURN nothing(void)
{
    enum { LOOK_NS = 200000000 };
    static uint32_t looked; /* atomic: when */
    uint32_t now = (uint32_t)(vipl_now_ns() / LOOK_NS);
    if (vipl_load_relaxed(&looked) == now) {
        return VIP_NOT_DONE;
    }
    vipl_store_relaxed(&looked, now);
    return vipl_share_keeper_lives() ? VIP_NOT_DONE : VIP_ERROR_RESOURCE;
}

/* --- work queues --- */

static bool queue_ready(const struct source *source)
{
    const struct vipl_board *board = &source->vi_board->queues[source->recv ? 1 : 0];
    return vipl_load_ptr((void *const *)&source->vi_board->handle) != source->handle ||
           vipl_load_ordered(&board->completed) != vipl_load_ordered(&board->reaped);
}

static VIP_RETURN take_descriptor(struct source *source)
{
    if (vipl_load_ptr((void *const *)&source->vi_board->handle) != source->handle ||
        vipl_share_has_dropped(source->handle)) {
        return VIP_INVALID_PARAMETER; /* destroyed meanwhile */
    }
    return vipl_board_take(&source->vi_board->queues[source->recv ? 1 : 0], &source->descriptor);
}

static bool queue_source(struct source *source, void *vi, bool recv)
{
    memset(source, 0, sizeof(*source));
    source->vi_board = vi_board(vi);
    if (source->vi_board == NULL) {
        return false;
    }
    source->handle = vi;
    source->nic = vipl_load_ptr(&source->vi_board->nic);
    source->recv = recv;
    source->rung = &source->vi_board->queues[recv ? 1 : 0].rung;
    source->ready = queue_ready;
    source->take = take_descriptor;
    return true;
}

VIP_RETURN vipl_share_done(void *vi, bool recv, VIP_DESCRIPTOR **out)
{
    struct source source;
    *out = NULL;
    if (!queue_source(&source, vi, recv)) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = take_descriptor(&source);
    quiet_if_empty(&source);
    *out = source.descriptor;
    return rc == VIP_NOT_DONE ? nothing() : rc;
}

VIP_RETURN vipl_share_wait(void *vi, bool recv, VIP_ULONG timeout, const void *mask, VIP_DESCRIPTOR **out)
{
    struct source source;
    *out = NULL;
    if (!queue_source(&source, vi, recv)) {
        return VIP_INVALID_PARAMETER;
    }
    if (source.vi_board->queues[recv ? 1 : 0].cq != 0) {
        return VIP_ERROR_RESOURCE;
    }
    VIP_RETURN rc = wait_for(&source, timeout, mask);
    quiet_if_empty(&source);
    *out = source.descriptor;
    return rc;
}

/* --- completion queues --- */

static bool cq_ready(const struct source *source)
{
    const struct vipl_cq_board *board = source->cq_board;
    return vipl_load_ptr((void *const *)&board->handle) != source->handle ||
           vipl_load_ordered(&board->pushed) != vipl_load_ordered(&board->taken);
}

static VIP_RETURN take_completion(struct source *source)
{
    if (vipl_load_ptr((void *const *)&source->cq_board->handle) != source->handle ||
        vipl_share_has_dropped(source->handle)) {
        return VIP_INVALID_PARAMETER;
    }
    return vipl_cq_board_take(vipl_share_arena(), source->cq_board, &source->vi, &source->is_recv);
}

static bool cq_source(struct source *source, void *cq)
{
    memset(source, 0, sizeof(*source));
    source->cq_board = cq_board(cq);
    if (source->cq_board == NULL) {
        return false;
    }
    source->handle = cq;
    source->nic = vipl_load_ptr(&source->cq_board->nic);
    source->rung = &source->cq_board->rung;
    source->ready = cq_ready;
    source->take = take_completion;
    return true;
}

static VIP_RETURN tell(const struct source *source, VIP_RETURN rc, void **vi, VIP_BOOLEAN *recv)
{
    if (rc == VIP_SUCCESS) {
        *vi = source->vi;
        *recv = source->is_recv;
    }
    return rc;
}

VIP_RETURN vipl_share_cq_done(void *cq, void **vi, VIP_BOOLEAN *recv)
{
    struct source source;
    *vi = NULL;
    if (!cq_source(&source, cq)) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = take_completion(&source);
    quiet_if_empty(&source);
    tell(&source, rc, vi, recv);
    return rc == VIP_NOT_DONE ? nothing() : rc;
}

VIP_RETURN vipl_share_cq_wait(void *cq, VIP_ULONG timeout, const void *mask, void **vi, VIP_BOOLEAN *recv)
{
    struct source source;
    *vi = NULL;
    if (!cq_source(&source, cq)) {
        return VIP_INVALID_PARAMETER;
    }
    VIP_RETURN rc = wait_for(&source, timeout, mask);
    quiet_if_empty(&source);
    return tell(&source, rc, vi, recv);
}

/* --- descriptors --- */

static VIP_RETURN fd_of(const void *handle, bool recv, int *fd)
{
    struct vipl_waker *bell = vipl_share_bell(handle, recv);
    if (bell == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    *fd = bell->fd;
    return VIP_SUCCESS;
}

static VIP_RETURN fd_of_source(const struct source *source, int *fd)
{
    VIP_RETURN rc = fd_of(source->handle, source->recv, fd);
    quiet_if_empty(source);
    return rc;
}

VIP_RETURN vipl_share_fd(const void *handle, bool recv, int *fd)
{
    struct source source;
    void *object = (void *)(uintptr_t)handle;
    switch (vipl_handle_kind(handle)) {
    case VIPL_KIND_VI:
        if (!queue_source(&source, object, recv)) {
            return VIP_INVALID_PARAMETER;
        }
        return source.vi_board->queues[recv ? 1 : 0].cq != 0 ? VIP_ERROR_RESOURCE : fd_of_source(&source, fd);
    case VIPL_KIND_CQ:
        return cq_source(&source, object) ? fd_of_source(&source, fd) : VIP_INVALID_PARAMETER;
    default: /* a NIC handle's requests: the keeper tells whether it is one */
        return fd_of(handle, recv, fd) == VIP_SUCCESS ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
    }
}
