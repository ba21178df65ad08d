/* SPDX-License-Identifier: MIT */
/* Completions of shared queues: the keeper's side of the boards. */
#include <assert.h>
#include <string.h>

#include "core/queue.h"
#include "core/share.h"

/* Whoever set `rung` writes the bell; the sleeper that empties it clears `rung` and looks again. */
void vipl_board_bell_ring(struct vipl_board_bell *bell, uint32_t *rung)
{
    if (vipl_load_ordered(&bell->open) != 0 && vipl_exchange(rung, 1) == 0) {
        vipl_waker_signal(&bell->waker);
    }
}

const struct vipl_waker *vipl_board_bell_open(struct vipl_board_bell *bell, uint32_t *rung)
{
    if (vipl_load_ordered(&bell->open) == 0) {
        if (vipl_waker_open(&bell->waker) != 0) {
            return NULL;
        }
        vipl_store_ordered(&bell->open, 1);
        vipl_exchange(rung, 1);
        vipl_waker_signal(&bell->waker);
    }
    return &bell->waker;
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

/* Whoever died may have emptied it and not have come to say so. */
static void ring_anyway(struct vipl_board_bell *bell, uint32_t *rung)
{
    vipl_exchange(rung, 0);
    vipl_board_bell_ring(bell, rung);
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

static bool push(struct vipl_cq_keeping *cq, uint32_t code)
{
    struct vipl_cq_board *board = cq->board;
    vipl_mutex_lock(&cq->lock);
    uint32_t pushed = vipl_load_relaxed(&board->pushed);
    bool fits = pushed - vipl_load_acquire(&board->taken) < vipl_load_relaxed(&board->limit);
    if (fits) {
        vipl_store_relaxed(&board->entries[pushed % VIPL_SHARE_ENTRIES], code);
        vipl_store_ordered(&board->pushed, pushed + 1);
    }
    vipl_mutex_unlock(&cq->lock);
    vipl_board_bell_ring(&cq->bell, &board->rung);
    return fits;
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
    vipl_board_bell_ring(&keeping->bell, &board->rung);
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
    for (uint32_t i = vipl_load_acquire(&cq->taken); i != pushed; i++) {
        found += vipl_load_relaxed(&cq->entries[i % VIPL_SHARE_ENTRIES]) == code ? 1 : 0;
    }
    return found;
}

/* One entry too many says nothing wrong (see vipl_share_cq_done()), one too few would lose a completion. */
void vipl_keeping_renew(struct vipl_keeping *keeping)
{
    struct vipl_board *board = keeping->board;
    ring_anyway(&keeping->bell, &board->rung);
    if (keeping->cq == NULL) {
        return;
    }
    uint32_t announced;
    do {
        announced = vipl_load_ordered(&board->announced);
    } while (!vipl_compare_exchange(&board->announced, announced, vipl_load_ordered(&board->reaped)));
    uint32_t open = vipl_load_ordered(&board->completed) - vipl_load_ordered(&board->reaped);
    for (uint32_t have = entries_of(keeping->cq->board, keeping->code); have < open; have++) {
        push(keeping->cq, keeping->code);
    }
}

void vipl_cq_keeping_renew(struct vipl_cq_keeping *cq)
{
    ring_anyway(&cq->bell, &cq->board->rung);
}
