/* SPDX-License-Identifier: MIT */
/* Taking completions of shared objects off their rings, and sleeping until there are some. */
#include "share/client_wait.h"

#include <errno.h>
#include <string.h>

#include "base/deadline.h"
#include "base/guard.h"
#include "os/os_atomic.h"
#include "share/client.h"
#include "share/client_call.h"
#include "share/client_post.h"
#include "share/rings.h"

static struct vipl_vi_rings *vi_rings(const void *vi)
{
    bool is_one = vipl_handle_kind(vi) == VIPL_KIND_VI && vipl_share_holds(vi);
    return is_one ? &vipl_share_arena()->vis[vipl_handle_slot(vi)] : NULL;
}

static struct vipl_cq_ring *cq_ring(const void *cq)
{
    bool is_one = vipl_handle_kind(cq) == VIPL_KIND_CQ && vipl_share_holds(cq);
    return is_one ? &vipl_share_arena()->cqs[vipl_handle_slot(cq)] : NULL;
}

/* The result for a handle that this process does not hold. A child whose server died before it read
 * of the child holds nothing, though the parent's handles were valid. */
static VIP_RETURN handle_not_held(void)
{
    bool may_hold = vipl_share_arena() == NULL || vipl_share_number() != VIPL_SHARE_CLIENTS;
    return may_hold ? VIP_INVALID_PARAMETER : VIP_ERROR_RESOURCE;
}

/* --- ready descriptors (rings.h); the server repairs one if a process is killed while
 * clearing it --- */

/* A work queue or completion queue that this thread takes from. */
struct source {
    const void *handle;
    const void *nic; /* the NIC handle of the object */
    bool recv;
    uint32_t *signalled;
    bool (*ready)(const void *source);         /* there is something to take, or no object */
    VIP_RETURN (*take)(struct source *source); /* VIP_NOT_DONE: there is nothing to take */
    struct vipl_vi_rings *vi_rings;
    struct vipl_cq_ring *cq_ring;
    VIP_DESCRIPTOR *descriptor;
    struct vipl_completion completion;
    bool handed_on; /* the last take() found entries that only other processes can take */
};

/* Clears the ready descriptor if nothing is left to take. If it is signalled, a process
 * has asked the server for it. This process asks for it too, the first time that it takes
 * the last completion. */
static void clear_if_empty(const struct source *source)
{
    struct vipl_waker *ready_fd;
    if (vipl_load_relaxed(source->signalled) == 0 || source->ready(source) ||
        (ready_fd = vipl_share_ready_fd(source->handle, source->recv)) == NULL) {
        return;
    }
    vipl_ring_clear(ready_fd, source->signalled, source->ready, source);
}

/* Called when the thread is cancelled in its sleep: it holds nothing. */
static void end_cancelled(void *unused)
{
    (void)unused;
    vipl_guard_wake();
    vipl_guard_cancelled();
}

/* Sleeps once. Returns VIP_NOT_DONE if the caller must try again, which it does at least once a
 * second: no ready descriptor tells that another thread has dropped this process's reference,
 * and a process that was stopped while clearing may have taken a signal meant for others. While
 * there are only completions for other processes, the ready descriptor tells nothing, so the
 * sleep is a few milliseconds. */
static VIP_RETURN sleep_once(const struct source *source, struct vipl_waker *ready_fd, uint64_t deadline,
                             const void *mask)
{
    enum { CHECK_MS = 1000, HANDED_ON_MS = 5 };
    int most = source->handed_on ? HANDED_ON_MS : CHECK_MS;
    int ms = vipl_ms_left(deadline);
    if (ms == 0) {
        return VIP_TIMEOUT;
    }
    ms = ms < 0 || ms > most ? most : ms;
    if (!source->handed_on && !vipl_ring_clear(ready_fd, source->signalled, source->ready, source)) {
        return VIP_NOT_DONE;
    }
    int const fds[2] = {source->handed_on ? -1 : ready_fd->fd, vipl_share_lifeline()};
    vipl_guard_sleep();
    int why = vipl_poll_cancellable(fds, 2, NULL, ms, mask, vipl_guard.cancel, end_cancelled, NULL);
    vipl_guard_wake();
    if (why == EINTR && !vipl_share_restarts(source->nic)) {
        return VIP_INTERRUPTED;
    }
    bool is_readable = why == 0 || why == VIPL_POLL_OTHERS;
    return is_readable && !vipl_share_server_lives() ? VIP_ERROR_RESOURCE : VIP_NOT_DONE;
}

/* Returns the ready descriptor. NULL: the process does not hold the object any more, or descriptors
 * are short. While another thread drops the reference either may be the reason, so this tries again
 * for a while. */
static struct vipl_waker *await_ready_fd(const struct source *source, VIP_ULONG timeout)
{
    enum { DROP_MS = 1000 };
    uint64_t end = vipl_deadline(timeout < DROP_MS ? timeout : DROP_MS);
    struct vipl_waker *ready_fd;
    while ((ready_fd = vipl_share_ready_fd(source->handle, source->recv)) == NULL &&
           vipl_share_holds(source->handle) && vipl_share_server_lives() && vipl_now_ns() < end) {
        vipl_poll(NULL, 0, 1, NULL);
    }
    return ready_fd;
}

/* Takes a completion, after the server has made this process's posts, which may be
 * complete at once. */
static VIP_RETURN take_now(struct source *source)
{
    VIP_RETURN rc = source->take(source);
    return rc == VIP_NOT_DONE && vipl_share_catch_up() ? source->take(source) : rc;
}

static VIP_RETURN wait_for_source(struct source *source, VIP_ULONG timeout, const void *mask)
{
    VIP_RETURN rc = take_now(source);
    if (rc != VIP_NOT_DONE) {
        return rc;
    }
    uint64_t deadline = vipl_deadline(timeout);
    struct vipl_waker *ready_fd = await_ready_fd(source, timeout);
    if (ready_fd == NULL) {
        rc = source->take(source);
        return rc == VIP_NOT_DONE ? VIP_ERROR_RESOURCE : rc;
    }
    while (rc == VIP_NOT_DONE) {
        VIP_RETURN slept = sleep_once(source, ready_fd, deadline, mask);
        rc = source->take(source);
        if (rc == VIP_NOT_DONE && slept != VIP_NOT_DONE) {
            return slept;
        }
    }
    return rc;
}

/* The result if there is nothing to take. A polling program learns here that the server has ended.
 * That check is a system call, and is made a few times a second. */
static VIP_RETURN nothing_to_take(void)
{
    enum { CHECK_NS = 200000000 };
    static uint32_t checked; /* atomic: when the last check was, in units of CHECK_NS */
    uint32_t now = (uint32_t)(vipl_now_ns() / CHECK_NS);
    if (vipl_load_relaxed(&checked) == now) {
        return VIP_NOT_DONE;
    }
    vipl_store_relaxed(&checked, now);
    return vipl_share_server_lives() ? VIP_NOT_DONE : VIP_ERROR_RESOURCE;
}

/* --- work queues --- */

static bool queue_ready(const void *what)
{
    const struct source *source = what;
    const struct vipl_ring *ring = &source->vi_rings->queues[source->recv ? 1 : 0];
    return vipl_load_ptr((void *const *)&source->vi_rings->handle) != source->handle ||
           vipl_load_ordered(&ring->completed) != vipl_load_ordered(&ring->reaped);
}

static VIP_RETURN take_descriptor(struct source *source)
{
    if (!vipl_share_holds(source->handle)) {
        return VIP_INVALID_PARAMETER; /* destroyed meanwhile */
    }
    return vipl_ring_take(&source->vi_rings->queues[source->recv ? 1 : 0], &source->descriptor);
}

static bool queue_source(struct source *source, void *vi, bool recv)
{
    memset(source, 0, sizeof(*source));
    source->vi_rings = vi_rings(vi);
    if (source->vi_rings == NULL) {
        return false;
    }
    source->handle = vi;
    source->nic = vipl_load_ptr(&source->vi_rings->nic);
    source->recv = recv;
    source->signalled = &source->vi_rings->queues[recv ? 1 : 0].signalled;
    source->ready = queue_ready;
    source->take = take_descriptor;
    return true;
}

static bool cq_source(struct source *source, void *cq);

/* After a reap: clears the ready descriptor of the completion queue, which may have nothing
 * else to name. */
static void clear_cq(const struct vipl_ring *queue)
{
    struct source source;
    if (queue->cq == 0 || queue->cq > VIPL_SHARE_CQS) {
        return;
    }
    struct vipl_cq_ring *cq = &vipl_share_arena()->cqs[queue->cq - 1];
    if (vipl_load_relaxed(&cq->signalled) != 0 && cq_source(&source, vipl_load_ptr(&cq->handle))) {
        clear_if_empty(&source);
    }
}

/* The fast path of a program that polls: nothing to take, nothing left to the server,
 * nothing to clear. */
static bool is_empty(const void *vi, bool recv)
{
    const struct vipl_vi_rings *rings = vi_rings(vi);
    if (rings == NULL) {
        return false;
    }
    const struct vipl_ring *ring = &rings->queues[recv ? 1 : 0];
    return vipl_load_relaxed(&ring->signalled) == 0 && ring->cq == 0 &&
           vipl_load_ordered(&ring->completed) == vipl_load_ordered(&ring->reaped) &&
           !vipl_share_catch_up() && vipl_load_ordered(&ring->completed) == vipl_load_ordered(&ring->reaped);
}

VIP_RETURN vipl_share_done(void *vi, bool recv, VIP_DESCRIPTOR **out)
{
    struct source source;
    *out = NULL;
    if (is_empty(vi, recv)) {
        return nothing_to_take();
    }
    if (!queue_source(&source, vi, recv)) {
        return handle_not_held();
    }
    VIP_RETURN rc = take_now(&source);
    clear_if_empty(&source);
    clear_cq(&source.vi_rings->queues[recv ? 1 : 0]);
    *out = source.descriptor;
    return rc == VIP_NOT_DONE ? nothing_to_take() : rc;
}

VIP_RETURN vipl_share_wait(void *vi, bool recv, VIP_ULONG timeout, const void *mask, VIP_DESCRIPTOR **out)
{
    struct source source;
    *out = NULL;
    if (!queue_source(&source, vi, recv)) {
        return handle_not_held();
    }
    if (source.vi_rings->queues[recv ? 1 : 0].cq != 0) {
        return VIP_ERROR_RESOURCE;
    }
    VIP_RETURN rc = wait_for_source(&source, timeout, mask);
    clear_if_empty(&source);
    *out = source.descriptor;
    return rc;
}

/* --- completion queues --- */

static bool cq_ready(const void *what)
{
    const struct source *source = what;
    uint32_t code;
    if (vipl_load_ptr((void *const *)&source->cq_ring->handle) != source->handle) {
        return true;
    }
    VIP_RETURN rc = vipl_cq_ring_trim(vipl_share_arena(), source->cq_ring, &code);
    if (rc == VIP_NO_MATCH) {
        vipl_share_hand_on(source->handle, code);
    }
    return rc != VIP_NOT_DONE;
}

/* Takes a completion off a completion queue. Entries of VIs that this process does not hold are
 * handed on to other processes. Each entry that is there now is handled once; then the process has
 * nothing to take. */
static VIP_RETURN take_completion(struct source *source)
{
    struct vipl_completion *found = &source->completion;
    uint32_t entries =
        vipl_load_ordered(&source->cq_ring->pushed) - vipl_load_ordered(&source->cq_ring->taken);
    VIP_RETURN rc;
    source->handed_on = false;
    do {
        if (!vipl_share_holds(source->handle)) {
            return VIP_INVALID_PARAMETER;
        }
        rc = vipl_cq_ring_take(vipl_share_arena(), source->cq_ring, vipl_share_number(), found);
        if (rc == VIP_NO_MATCH) {
            source->handed_on = true;
            rc = vipl_share_hand_on(source->handle, found->code);
            rc = rc == VIP_SUCCESS ? VIP_NO_MATCH : rc;
        }
    } while (rc == VIP_NO_MATCH && --entries > 0 && entries < VIPL_SHARE_ENTRIES);
    return rc == VIP_NO_MATCH ? VIP_NOT_DONE : rc;
}

static bool cq_source(struct source *source, void *cq)
{
    memset(source, 0, sizeof(*source));
    source->cq_ring = cq_ring(cq);
    if (source->cq_ring == NULL) {
        return false;
    }
    source->handle = cq;
    source->nic = vipl_load_ptr(&source->cq_ring->nic);
    source->signalled = &source->cq_ring->signalled;
    source->ready = cq_ready;
    source->take = take_completion;
    return true;
}

static VIP_RETURN return_completion(const struct source *source, VIP_RETURN rc, void **vi, VIP_BOOLEAN *recv)
{
    if (rc == VIP_SUCCESS) {
        *vi = source->completion.vi;
        *recv = source->completion.recv;
    }
    return rc;
}

VIP_RETURN vipl_share_cq_done(void *cq, void **vi, VIP_BOOLEAN *recv)
{
    struct source source;
    *vi = NULL;
    if (!cq_source(&source, cq)) {
        return handle_not_held();
    }
    VIP_RETURN rc = take_now(&source);
    clear_if_empty(&source);
    return_completion(&source, rc, vi, recv);
    return rc == VIP_NOT_DONE ? nothing_to_take() : rc;
}

VIP_RETURN vipl_share_cq_wait(void *cq, VIP_ULONG timeout, const void *mask, void **vi, VIP_BOOLEAN *recv)
{
    struct source source;
    *vi = NULL;
    if (!cq_source(&source, cq)) {
        return handle_not_held();
    }
    VIP_RETURN rc = wait_for_source(&source, timeout, mask);
    clear_if_empty(&source);
    return return_completion(&source, rc, vi, recv);
}

/* --- descriptors --- */

static VIP_RETURN fd_of_source(const struct source *source, int *fd)
{
    struct vipl_waker *ready_fd = await_ready_fd(source, VIP_INFINITE);
    if (ready_fd == NULL) {
        return vipl_share_holds(source->handle) ? VIP_ERROR_RESOURCE : VIP_INVALID_PARAMETER;
    }
    *fd = ready_fd->fd;
    clear_if_empty(source);
    return VIP_SUCCESS;
}

/* The ready descriptor of a NIC handle's connection requests. The server checks the handle. */
static VIP_RETURN fd_of_nic(const void *handle, bool recv, int *fd)
{
    struct vipl_waker *ready_fd = vipl_share_ready_fd(handle, recv);
    if (ready_fd == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    *fd = ready_fd->fd;
    return VIP_SUCCESS;
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
        return source.vi_rings->queues[recv ? 1 : 0].cq != 0 ? VIP_ERROR_RESOURCE : fd_of_source(&source, fd);
    case VIPL_KIND_CQ:
        return cq_source(&source, object) ? fd_of_source(&source, fd) : VIP_INVALID_PARAMETER;
    default:
        return fd_of_nic(handle, recv, fd);
    }
}
