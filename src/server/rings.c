/* SPDX-License-Identifier: MIT */
/* Filling the rings: each shared queue is a sink of one of the server's own work queues. */
#include "server/rings.h"

#include <string.h>

#include "base/lock_rank.h"
#include "base/log.h"
#include "os/os_atomic.h"
#include "server/events.h"
#include "share/rings.h"

static bool is_ready(const void *what)
{
    const struct vipl_ring *ring = what;
    return vipl_load_ordered(&ring->completed) != vipl_load_ordered(&ring->reaped);
}

static void signal_if(bool something, struct vipl_shared_ready *ready_fd, uint32_t *signalled)
{
    if (something && vipl_load_ordered(&ready_fd->open) != 0) {
        vipl_ring_signal(&ready_fd->waker, signalled);
    }
}

static bool open_ready_fd(struct vipl_shared_ready *ready_fd, uint32_t *signalled)
{
    if (vipl_load_ordered(&ready_fd->open) == 0) {
        if (vipl_waker_open(&ready_fd->waker) != 0) {
            return false;
        }
        vipl_store_ordered(&ready_fd->open, 1);
        vipl_exchange(signalled, 1);
        vipl_waker_signal(&ready_fd->waker);
    }
    return true;
}

void vipl_shared_ready_share(struct vipl_shared_ready *ready_fd, uint32_t *signalled, int fds[2])
{
    if (!open_ready_fd(ready_fd, signalled) || vipl_fd_duplicate(ready_fd->waker.fd, 0, &fds[0]) != 0) {
        fds[0] = -1;
        return;
    }
    bool is_one = ready_fd->waker.write_fd == ready_fd->waker.fd;
    if (!is_one && vipl_fd_duplicate(ready_fd->waker.write_fd, 0, &fds[1]) != 0) {
        vipl_fd_close(fds[0]);
        fds[0] = fds[1] = -1;
    }
}

/* Waiting processes have duplicates, which wake them. */
void vipl_shared_ready_end(struct vipl_shared_ready *ready_fd, uint32_t *signalled)
{
    if (vipl_load_ordered(&ready_fd->open) != 0) {
        vipl_exchange(signalled, 1);
        vipl_waker_signal(&ready_fd->waker);
        vipl_store_ordered(&ready_fd->open, 0);
        vipl_waker_close(&ready_fd->waker);
    }
}

/* Clears or signals a ready descriptor again. A client that has ended may have cleared it without
 * checking afterwards, or have taken the last completion without clearing it. */
static void recheck_ready_fd(struct vipl_shared_ready *ready_fd, uint32_t *signalled,
                             bool (*ready)(const void *), const void *what)
{
    if (vipl_load_ordered(&ready_fd->open) == 0) {
        return;
    }
    vipl_exchange(signalled, 0); /* it may be set while the descriptor is not readable */
    if (!vipl_ring_clear(&ready_fd->waker, signalled, ready, what)) {
        vipl_ring_signal(&ready_fd->waker, signalled);
    }
}

static void write_completion(uint64_t *entry, uint64_t value)
{
    uint32_t *halves = (uint32_t *)(void *)entry;
    uint32_t from[2];
    memcpy(from, &value, sizeof(from));
    /* `completed`, stored later, pairs with the reaper's load */
    vipl_store_relaxed(&halves[0], from[0]);
    vipl_store_relaxed(&halves[1], from[1]);
}

/* --- handlers: the server takes a completion for each, as a client takes one --- */

static void fire_handler(struct vipl_server_notify *notify, const struct vipl_call_handler *found)
{
    vipl_list_remove(&notify->link);
    notify->event.vi = found->vi;
    notify->event.descriptor = found->descriptor;
    notify->event.recv = found->recv;
    vipl_server_event(notify->client, &notify->event);
    vipl_free(notify);
}

/* Calls handlers while there are both handlers and completions. The lock is held. */
static void fire_queue_handlers(struct vipl_shared_queue *shared)
{
    struct vipl_call_handler found = {.vi = shared->vi};
    while (!vipl_list_empty(&shared->notifies) &&
           vipl_ring_take(shared->ring, &found.descriptor) != VIP_NOT_DONE) {
        fire_handler(VIPL_CONTAINER(shared->notifies.next, struct vipl_server_notify, link), &found);
    }
}

static bool append_entry(struct vipl_cq_ring *ring, uint32_t code, uint32_t limit)
{
    uint32_t pushed = vipl_load_relaxed(&ring->pushed);
    bool fits = pushed - vipl_load_acquire(&ring->taken) < limit;
    if (fits) {
        vipl_store_relaxed(&ring->entries[pushed % VIPL_SHARE_ENTRIES], code);
        vipl_store_ordered(&ring->pushed, pushed + 1);
    }
    return fits;
}

/* The first handler whose client holds the VI of the entry, or NULL. */
static struct vipl_server_notify *handler_for(const struct vipl_shared_cq *cq, uint32_t code)
{
    const void *vi = vipl_load_ptr(&cq->arena->vis[code >> 1 & (VIPL_SHARE_VIS - 1)].handle);
    for (struct vipl_list *link = cq->notifies.next; link != &cq->notifies; link = link->next) {
        struct vipl_server_notify *notify = VIPL_CONTAINER(link, struct vipl_server_notify, link);
        if (vi != NULL && vipl_arena_holds(cq->arena, notify->client, vi)) {
            return notify;
        }
    }
    return NULL;
}

/* Gives the oldest entry to a handler, or moves it to the end if no handler may have it. Other
 * processes take entries meanwhile. Returns false if there is no entry. */
static bool fire_cq_handler(struct vipl_shared_cq *cq)
{
    struct vipl_completion found;
    VIP_RETURN rc = vipl_cq_ring_trim(cq->arena, cq->ring, &found.code);
    if (rc == VIP_SUCCESS) {
        struct vipl_server_notify *notify = handler_for(cq, found.code);
        rc = vipl_cq_ring_take(cq->arena, cq->ring, notify == NULL ? VIPL_SHARE_CLIENTS : notify->client,
                               &found);
        if (rc == VIP_SUCCESS && notify != NULL) { /* without a handler nothing is taken */
            struct vipl_call_handler event = {.vi = found.vi, .recv = found.recv};
            fire_handler(notify, &event);
        }
    }
    if (rc == VIP_NO_MATCH) {
        append_entry(cq->ring, found.code, VIPL_SHARE_ENTRIES);
    }
    return rc != VIP_NOT_DONE;
}

/* Handles each entry that is there now once. */
static void fire_cq_handlers(struct vipl_shared_cq *cq)
{
    uint32_t entries = vipl_load_relaxed(&cq->ring->pushed) - vipl_load_acquire(&cq->ring->taken);
    while (entries-- > 0 && !vipl_list_empty(&cq->notifies) && fire_cq_handler(cq)) {
    }
}

bool vipl_shared_queue_notify(struct vipl_shared_queue *shared, struct vipl_server_notify *notify)
{
    if (shared->cq != NULL) {
        return false;
    }
    vipl_mutex_lock(&shared->lock);
    vipl_list_append(&shared->notifies, &notify->link);
    fire_queue_handlers(shared);
    vipl_mutex_unlock(&shared->lock);
    return true;
}

void vipl_shared_cq_notify(struct vipl_shared_cq *cq, struct vipl_server_notify *notify)
{
    vipl_mutex_lock(&cq->lock);
    vipl_list_append(&cq->notifies, &notify->link);
    fire_cq_handlers(cq);
    vipl_mutex_unlock(&cq->lock);
}

static void forget_handlers(struct vipl_list *notifies, unsigned client)
{
    struct vipl_list *next;
    for (struct vipl_list *link = notifies->next; link != notifies; link = next) {
        struct vipl_server_notify *notify = VIPL_CONTAINER(link, struct vipl_server_notify, link);
        next = link->next;
        if (client == VIPL_SHARE_CLIENTS || notify->client == client) {
            vipl_list_remove(link);
            vipl_free(notify);
        }
    }
}

void vipl_shared_queue_forget(struct vipl_shared_queue *shared, unsigned client)
{
    vipl_mutex_lock(&shared->lock);
    forget_handlers(&shared->notifies, client);
    vipl_mutex_unlock(&shared->lock);
}

void vipl_shared_cq_forget(struct vipl_shared_cq *cq, unsigned client)
{
    vipl_mutex_lock(&cq->lock);
    forget_handlers(&cq->notifies, client);
    vipl_mutex_unlock(&cq->lock);
}

/* --- completions --- */

static uint32_t entries_of(struct vipl_cq_ring *cq, uint32_t code)
{
    uint32_t found = 0;
    uint32_t pushed = vipl_load_acquire(&cq->pushed);
    uint32_t taken = vipl_load_acquire(&cq->taken);
    /* a faulty program has overwritten the indices */
    taken = pushed - taken > VIPL_SHARE_ENTRIES ? pushed : taken;
    for (uint32_t i = taken; i != pushed; i++) {
        found += vipl_load_relaxed(&cq->entries[i % VIPL_SHARE_ENTRIES]) == code ? 1 : 0;
    }
    return found;
}

/* Whether the completion queue has an entry for every unnamed completion of a queue. An entry stays
 * when its completion is reaped from the queue itself. If the completion queue is full of such
 * entries, one of them serves for the next completion, which is visible already: a client that
 * removes the entry before this check has seen that completion. */
static bool has_entry(const struct vipl_shared_cq *cq, uint32_t code)
{
    const struct vipl_vi_rings *vi = &cq->arena->vis[code >> 1 & (VIPL_SHARE_VIS - 1)];
    return entries_of(cq->ring, code) >= vipl_ring_to_announce(&vi->queues[code & 1]);
}

/* Adds an entry. Returns false if there is no room. A completion queue that no process holds takes
 * no entries, and is never full. */
static bool push_cq_entry(struct vipl_shared_cq *cq, uint32_t code)
{
    struct vipl_cq_ring *ring = cq->ring;
    vipl_mutex_lock(&cq->lock);
    bool fits = append_entry(ring, code, vipl_load_relaxed(&ring->limit)) || has_entry(cq, code);
    if (fits) {
        fire_cq_handlers(cq);
    }
    vipl_mutex_unlock(&cq->lock);
    signal_if(vipl_load_ordered(&ring->pushed) != vipl_load_ordered(&ring->taken), &cq->ready_fd,
              &ring->signalled);
    return fits || vipl_load_ptr(&ring->handle) == NULL;
}

/* There is room, because the entry was taken from this queue. */
void vipl_shared_cq_hand_on(struct vipl_shared_cq *cq, uint32_t code)
{
    vipl_mutex_lock(&cq->lock);
    if (!append_entry(cq->ring, code, VIPL_SHARE_ENTRIES)) {
        vipl_log(VIPL_LOG_ERROR, "a completion queue is full: an entry is lost");
    }
    vipl_mutex_unlock(&cq->lock);
    signal_if(true, &cq->ready_fd, &cq->ring->signalled);
}

static bool sink_deliver(struct vipl_sink *sink, struct vipl_work *work)
{
    struct vipl_shared_queue *shared = VIPL_CONTAINER(sink, struct vipl_shared_queue, sink);
    struct vipl_ring *ring = shared->ring;
    uint64_t failed = (work->status & VIP_STATUS_ERROR_MASK) != 0 ? VIPL_RING_FAILED : 0;
    write_completion(&ring->entries[shared->completed % VIPL_SHARE_DEPTH],
                     (uint64_t)(uintptr_t)work->descriptor | failed);
    vipl_store_ordered(&ring->completed, ++shared->completed);
    if (shared->cq != NULL) {
        return push_cq_entry(shared->cq, shared->code);
    }
    vipl_mutex_lock(&shared->lock);
    fire_queue_handlers(shared);
    vipl_mutex_unlock(&shared->lock);
    /* unless handlers have taken all completions */
    signal_if(is_ready(ring), &shared->ready_fd, &ring->signalled);
    return true;
}

void vipl_shared_queue_init(struct vipl_shared_queue *shared, struct vipl_ring *ring,
                            struct vipl_shared_cq *cq)
{
    memset(ring, 0, offsetof(struct vipl_ring, entries));
    vipl_mutex_init(&shared->lock, VIPL_RANK_CQ);
    vipl_list_init(&shared->notifies);
    shared->sink.deliver = sink_deliver;
    shared->ring = ring;
    shared->cq = cq;
}

/* One entry too many does no harm (vipl_cq_ring_take()); one too few would lose a completion. */
void vipl_shared_queue_reannounce(struct vipl_shared_queue *shared)
{
    struct vipl_ring *ring = shared->ring;
    recheck_ready_fd(&shared->ready_fd, &ring->signalled, is_ready, ring);
    if (shared->cq == NULL) {
        return;
    }
    uint32_t announced;
    do {
        announced = vipl_load_ordered(&ring->announced);
    } while (!vipl_compare_exchange(&ring->announced, announced, vipl_load_ordered(&ring->reaped)));
    /* read first: it never passes what is complete then */
    uint32_t reaped = vipl_load_ordered(&ring->reaped);
    uint32_t open = vipl_load_ordered(&ring->completed) - reaped;
    for (uint32_t have = entries_of(shared->cq->ring, shared->code); have < open; have++) {
        push_cq_entry(shared->cq, shared->code);
    }
}

static bool is_cq_ready(const void *what)
{
    const struct vipl_shared_cq *cq = what;
    uint32_t code;
    VIP_RETURN rc = vipl_cq_ring_trim(cq->arena, cq->ring, &code);
    if (rc == VIP_NO_MATCH) {
        vipl_shared_cq_hand_on((struct vipl_shared_cq *)(uintptr_t)what, code);
    }
    return rc != VIP_NOT_DONE;
}

void vipl_shared_cq_reannounce(struct vipl_shared_cq *cq)
{
    recheck_ready_fd(&cq->ready_fd, &cq->ring->signalled, is_cq_ready, cq);
}
