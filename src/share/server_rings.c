/* SPDX-License-Identifier: MIT */
/* Completions of shared queues: the keeper's side of the boards. */
#include <assert.h>
#include <string.h>

#include "base/log.h"
#include "core/queue.h"
#include "share/server.h"

static bool is_ready(const void *what)
{
    const struct vipl_board *board = what;
    return vipl_load_ordered(&board->completed) != vipl_load_ordered(&board->reaped);
}

/* Whoever set `rung` writes the bell; the sleeper that empties it clears `rung` and looks again. */
void vipl_board_bell_ring(struct vipl_board_bell *bell, uint32_t *rung)
{
    if (vipl_load_ordered(&bell->open) != 0) {
        vipl_board_ring(&bell->waker, rung);
    }
}

static void ring_if(bool something, struct vipl_board_bell *bell, uint32_t *rung)
{
    if (something) {
        vipl_board_bell_ring(bell, rung);
    }
}

static bool open_bell(struct vipl_board_bell *bell, uint32_t *rung)
{
    if (vipl_load_ordered(&bell->open) == 0) {
        if (vipl_waker_open(&bell->waker) != 0) {
            return false;
        }
        vipl_store_ordered(&bell->open, 1);
        vipl_exchange(rung, 1);
        vipl_waker_signal(&bell->waker);
    }
    return true;
}

void vipl_board_bell_share(struct vipl_board_bell *bell, uint32_t *rung, int fds[2])
{
    if (!open_bell(bell, rung) || vipl_fd_duplicate(bell->waker.fd, 0, &fds[0]) != 0) {
        fds[0] = -1;
        return;
    }
    bool is_one = bell->waker.write_fd == bell->waker.fd;
    if (!is_one && vipl_fd_duplicate(bell->waker.write_fd, 0, &fds[1]) != 0) {
        vipl_fd_close(fds[0]);
        fds[0] = fds[1] = -1;
    }
}

/* Sleepers have descriptors of their own: they wake, and see that the object is no more. */
void vipl_board_bell_end(struct vipl_board_bell *bell, uint32_t *rung)
{
    if (vipl_load_ordered(&bell->open) != 0) {
        vipl_exchange(rung, 1);
        vipl_waker_signal(&bell->waker);
        vipl_store_ordered(&bell->open, 0);
        vipl_waker_close(&bell->waker);
    }
}

/* Whoever died may have emptied it and not have come to look again, or have taken the last and not have emptied it. */
static void look_again(struct vipl_board_bell *bell, uint32_t *rung, bool (*ready)(const void *),
                       const void *what)
{
    if (vipl_load_ordered(&bell->open) == 0) {
        return;
    }
    vipl_exchange(rung, 0); /* it may be set without the descriptor being readable */
    if (!vipl_board_hush(&bell->waker, rung, ready, what)) {
        vipl_board_ring(&bell->waker, rung);
    }
}

static void write_entry(uint64_t *entry, uint64_t value)
{
    uint32_t *halves = (uint32_t *)(void *)entry;
    uint32_t from[2];
    memcpy(from, &value, sizeof(from));
    vipl_store_relaxed(&halves[0],
                       from[0]); /* `completed`, stored after them, pairs with the reaper's load */
    vipl_store_relaxed(&halves[1], from[1]);
}

/* --- handlers: they take what is there as a holder does, and are then called --- */

static void fire(struct vipl_keeper_notify *notify, const struct vipl_shared_event *found)
{
    vipl_list_remove(&notify->link);
    notify->event.vi = found->vi;
    notify->event.descriptor = found->descriptor;
    notify->event.recv = found->recv;
    vipl_keeper_event(notify->holder, &notify->event);
    vipl_free(notify);
}

static void fire_all(struct vipl_keeping *keeping)
{
    struct vipl_shared_event found = {.vi = keeping->vi};
    while (!vipl_list_empty(&keeping->notifies) &&
           vipl_board_take(keeping->board, &found.descriptor) != VIP_NOT_DONE) {
        fire(VIPL_CONTAINER(keeping->notifies.next, struct vipl_keeper_notify, link), &found);
    }
}

static bool append_entry(struct vipl_cq_board *board, uint32_t code, uint32_t limit)
{
    uint32_t pushed = vipl_load_relaxed(&board->pushed);
    bool fits = pushed - vipl_load_acquire(&board->taken) < limit;
    if (fits) {
        vipl_store_relaxed(&board->entries[pushed % VIPL_SHARE_ENTRIES], code);
        vipl_store_ordered(&board->pushed, pushed + 1);
    }
    return fits;
}

/* The first handler whose holder holds the VI of the entry, or NULL. */
static struct vipl_keeper_notify *handler_for(const struct vipl_cq_keeping *cq, uint32_t code)
{
    const void *vi = vipl_load_ptr(&cq->arena->vis[code >> 1 & (VIPL_SHARE_VIS - 1)].handle);
    for (struct vipl_list *link = cq->notifies.next; link != &cq->notifies; link = link->next) {
        struct vipl_keeper_notify *notify = VIPL_CONTAINER(link, struct vipl_keeper_notify, link);
        if (vi != NULL && vipl_arena_holds(cq->arena, notify->holder, vi)) {
            return notify;
        }
    }
    return NULL;
}

/* The oldest entry goes to a handler, or to the end if there is none for it. Other processes take entries meanwhile.
 * False: there is none. */
static bool fire_one_cq(struct vipl_cq_keeping *cq)
{
    struct vipl_completion found;
    VIP_RETURN rc = vipl_cq_board_trim(cq->arena, cq->board, &found.code);
    if (rc == VIP_SUCCESS) {
        struct vipl_keeper_notify *notify = handler_for(cq, found.code);
        rc = vipl_cq_board_take(cq->arena, cq->board, notify == NULL ? VIPL_SHARE_HOLDERS : notify->holder,
                                &found);
        if (rc == VIP_SUCCESS && notify != NULL) { /* without one nothing is taken */
            struct vipl_shared_event event = {.vi = found.vi, .recv = found.recv};
            fire(notify, &event);
        }
    }
    if (rc == VIP_NO_MATCH) {
        append_entry(cq->board, found.code, VIPL_SHARE_ENTRIES);
    }
    return rc != VIP_NOT_DONE;
}

/* Each entry that is there is looked at once. */
static void fire_all_cq(struct vipl_cq_keeping *cq)
{
    uint32_t entries = vipl_load_relaxed(&cq->board->pushed) - vipl_load_acquire(&cq->board->taken);
    while (entries-- > 0 && !vipl_list_empty(&cq->notifies) && fire_one_cq(cq)) {
    }
}

void vipl_keeping_notify(struct vipl_keeping *keeping, struct vipl_keeper_notify *notify)
{
    vipl_list_append(&keeping->notifies, &notify->link);
    fire_all(keeping);
}

void vipl_cq_keeping_notify(struct vipl_cq_keeping *cq, struct vipl_keeper_notify *notify)
{
    vipl_mutex_lock(&cq->lock);
    vipl_list_append(&cq->notifies, &notify->link);
    fire_all_cq(cq);
    vipl_mutex_unlock(&cq->lock);
}

static void forget(struct vipl_list *notifies, unsigned holder)
{
    struct vipl_list *next;
    for (struct vipl_list *link = notifies->next; link != notifies; link = next) {
        struct vipl_keeper_notify *notify = VIPL_CONTAINER(link, struct vipl_keeper_notify, link);
        next = link->next;
        if (holder == VIPL_SHARE_HOLDERS || notify->holder == holder) {
            vipl_list_remove(link);
            vipl_free(notify);
        }
    }
}

void vipl_keeping_forget(struct vipl_keeping *keeping, unsigned holder)
{
    vipl_mutex_lock(&keeping->q->lock);
    forget(&keeping->notifies, holder);
    vipl_mutex_unlock(&keeping->q->lock);
}

void vipl_cq_keeping_forget(struct vipl_cq_keeping *cq, unsigned holder)
{
    vipl_mutex_lock(&cq->lock);
    forget(&cq->notifies, holder);
    vipl_mutex_unlock(&cq->lock);
}

/* --- completions --- */

static bool push(struct vipl_cq_keeping *cq, uint32_t code)
{
    struct vipl_cq_board *board = cq->board;
    vipl_mutex_lock(&cq->lock);
    bool fits = append_entry(board, code, vipl_load_relaxed(&board->limit));
    if (fits) {
        fire_all_cq(cq);
    }
    vipl_mutex_unlock(&cq->lock);
    ring_if(vipl_load_ordered(&board->pushed) != vipl_load_ordered(&board->taken), &cq->bell, &board->rung);
    return fits;
}

/* There is room: it was taken from here. */
void vipl_cq_keeping_hand_on(struct vipl_cq_keeping *cq, uint32_t code)
{
    vipl_mutex_lock(&cq->lock);
    if (!append_entry(cq->board, code, VIPL_SHARE_ENTRIES)) {
        vipl_log(VIPL_LOG_ERROR, "a completion queue is full: an entry is lost");
    }
    vipl_mutex_unlock(&cq->lock);
    vipl_board_bell_ring(&cq->bell, &cq->board->rung);
}

bool vipl_keeping_publish(struct vipl_keeping *keeping, struct vipl_queue *q, const struct vipl_work *work)
{
    struct vipl_board *board = keeping->board;
    uint64_t failed = (work->status & VIP_STATUS_ERROR_MASK) != 0 ? VIPL_BOARD_FAILED : 0;
    assert(vipl_mutex_is_held(&q->lock));
    write_entry(&board->entries[(q->completed - 1) % VIPL_SHARE_DEPTH],
                (uint64_t)(uintptr_t)work->descriptor | failed);
    vipl_store_ordered(&board->completed, q->completed);
    if (keeping->cq != NULL) {
        return push(keeping->cq, keeping->code);
    }
    fire_all(keeping);
    ring_if(is_ready(board), &keeping->bell, &board->rung); /* unless a handler was told of all */
    return true;
}

/* A number that no holder can have taken is not believed: a program that writes where it should not harms
 * its own VIs only. */
void vipl_keeping_follow(struct vipl_keeping *keeping, struct vipl_queue *q)
{
    uint32_t reaped = vipl_load_acquire(&keeping->board->reaped);
    assert(vipl_mutex_is_held(&q->lock));
    if (reaped - q->reaped <= q->completed - q->reaped) {
        q->reaped = reaped;
    }
}

static uint32_t entries_of(struct vipl_cq_board *cq, uint32_t code)
{
    uint32_t found = 0;
    uint32_t pushed = vipl_load_acquire(&cq->pushed);
    uint32_t taken = vipl_load_acquire(&cq->taken);
    taken = pushed - taken > VIPL_SHARE_ENTRIES ? pushed : taken; /* written over by a program gone wrong */
    for (uint32_t i = taken; i != pushed; i++) {
        found += vipl_load_relaxed(&cq->entries[i % VIPL_SHARE_ENTRIES]) == code ? 1 : 0;
    }
    return found;
}

/* One entry too many says nothing wrong (see vipl_share_cq_done()), one too few would lose a completion. */
void vipl_keeping_renew(struct vipl_keeping *keeping)
{
    struct vipl_board *board = keeping->board;
    look_again(&keeping->bell, &board->rung, is_ready, board);
    if (keeping->cq == NULL) {
        return;
    }
    uint32_t announced;
    do {
        announced = vipl_load_ordered(&board->announced);
    } while (!vipl_compare_exchange(&board->announced, announced, vipl_load_ordered(&board->reaped)));
    uint32_t reaped = vipl_load_ordered(&board->reaped); /* first: it never passes what is complete then */
    uint32_t open = vipl_load_ordered(&board->completed) - reaped;
    for (uint32_t have = entries_of(keeping->cq->board, keeping->code); have < open; have++) {
        push(keeping->cq, keeping->code);
    }
}

static bool is_cq_ready(const void *what)
{
    const struct vipl_cq_keeping *cq = what;
    uint32_t code;
    VIP_RETURN rc = vipl_cq_board_trim(cq->arena, cq->board, &code);
    if (rc == VIP_NO_MATCH) {
        vipl_cq_keeping_hand_on((struct vipl_cq_keeping *)(uintptr_t)what, code);
    }
    return rc != VIP_NOT_DONE;
}

void vipl_cq_keeping_renew(struct vipl_cq_keeping *cq)
{
    look_again(&cq->bell, &cq->board->rung, is_cq_ready, cq);
}
