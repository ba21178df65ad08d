/* SPDX-License-Identifier: MIT */
/* Taking completions off rings: a thread that loses the race for an entry takes the next one. */
#include "share/rings.h"

#include <string.h>

#include "os/os_atomic.h"

static uint64_t read_entry(const uint64_t *entry)
{
    const uint32_t *halves = (const uint32_t *)(const void *)entry;
    uint32_t to[2] = {vipl_load_relaxed(&halves[0]), vipl_load_relaxed(&halves[1])};
    uint64_t value;
    memcpy(&value, to, sizeof(value));
    return value;
}

VIP_RETURN vipl_ring_take(struct vipl_ring *ring, VIP_DESCRIPTOR **descriptor)
{
    uint64_t entry;
    uint32_t reaped;
    do {
        reaped = vipl_load_acquire(&ring->reaped);
        /* pairs with the server's store, after the entry */
        if (reaped == vipl_load_acquire(&ring->completed)) {
            return VIP_NOT_DONE;
        }
        entry = read_entry(&ring->entries[reaped % VIPL_SHARE_DEPTH]);
    } while (!vipl_compare_exchange(&ring->reaped, reaped, reaped + 1));
    *descriptor = (VIP_DESCRIPTOR *)(uintptr_t)(entry & ~VIPL_RING_FAILED);
    return (entry & VIPL_RING_FAILED) != 0 ? VIP_DESCRIPTOR_ERROR : VIP_SUCCESS;
}

void vipl_ring_signal(struct vipl_waker *ready_fd, uint32_t *signalled)
{
    if (vipl_exchange(signalled, 1) == 0) {
        vipl_waker_signal(ready_fd);
    }
}

bool vipl_ring_clear(struct vipl_waker *ready_fd, uint32_t *signalled, bool (*ready)(const void *what),
                     const void *what)
{
    if (ready(what)) {
        return false;
    }
    vipl_waker_reset(ready_fd);
    /* before `ready` is called again; pairs with the exchange in vipl_ring_signal() */
    vipl_exchange(signalled, 0);
    if (!ready(what)) {
        return true;
    }
    vipl_ring_signal(ready_fd, signalled);
    return false;
}

/* How many completions a work queue has, and how many its completion queue has named. Completions
 * that were reaped unnamed count as named. */
struct announce_state {
    uint32_t completed;
    uint32_t announced; /* the ring's own value */
    uint32_t named;
};

/* `completed` is read last: the others never pass its current value, but may pass
 * an earlier one. */
static struct announce_state read_announce_state(const struct vipl_ring *ring)
{
    struct announce_state now;
    now.announced = vipl_load_ordered(&ring->announced);
    uint32_t reaped = vipl_load_ordered(&ring->reaped);
    now.completed = vipl_load_ordered(&ring->completed);
    now.named = now.completed - now.announced > now.completed - reaped ? reaped : now.announced;
    return now;
}

uint32_t vipl_ring_to_announce(const struct vipl_ring *ring)
{
    struct announce_state now = read_announce_state(ring);
    return now.completed - now.named;
}

/* Whether the work queue has a completion that was not named yet. */
static bool has_unannounced(const struct vipl_ring *ring)
{
    return vipl_ring_to_announce(ring) != 0;
}

/* Names one more completion, to this process. Returns false if there is none. */
static bool announce_next(struct vipl_ring *ring)
{
    for (;;) {
        struct announce_state now = read_announce_state(ring);
        if (now.named == now.completed) {
            return false;
        }
        if (vipl_compare_exchange(&ring->announced, now.announced, now.named + 1)) {
            return true;
        }
    }
}

static bool take_entry(struct vipl_cq_ring *ring, uint32_t *code)
{
    uint32_t taken;
    do {
        taken = vipl_load_acquire(&ring->taken);
        /* pairs with the server's store, after the entry */
        if (taken == vipl_load_acquire(&ring->pushed)) {
            return false;
        }
        *code = vipl_load_relaxed(&ring->entries[taken % VIPL_SHARE_ENTRIES]);
    } while (!vipl_compare_exchange(&ring->taken, taken, taken + 1));
    return true;
}

/* Whether an entry still names something. A later completion has an entry of its own. */
static bool is_live(struct vipl_arena *arena, const struct vipl_cq_ring *cq, uint32_t code)
{
    uint32_t number = (uint32_t)(cq - arena->cqs) + 1;
    struct vipl_vi_rings *ring = &arena->vis[code >> 1 & (VIPL_SHARE_VIS - 1)];
    const struct vipl_ring *queue = &ring->queues[code & 1];
    return vipl_load_ptr((void *const *)&ring->handle) != NULL && queue->cq == number &&
           has_unannounced(queue);
}

/* Checks an entry again after removing it: in between, the server may have announced again, by the
 * entries that are there, what a dead client had been told. */
VIP_RETURN vipl_cq_ring_trim(struct vipl_arena *arena, struct vipl_cq_ring *cq, uint32_t *code)
{
    for (;;) {
        uint32_t taken = vipl_load_acquire(&cq->taken);
        /* pairs with the server's store, after the entry */
        if (taken == vipl_load_acquire(&cq->pushed)) {
            return VIP_NOT_DONE;
        }
        *code = vipl_load_relaxed(&cq->entries[taken % VIPL_SHARE_ENTRIES]);
        if (is_live(arena, cq, *code)) {
            return VIP_SUCCESS;
        }
        if (vipl_compare_exchange(&cq->taken, taken, taken + 1) && is_live(arena, cq, *code)) {
            return VIP_NO_MATCH;
        }
    }
}

VIP_RETURN vipl_cq_ring_take(struct vipl_arena *arena, struct vipl_cq_ring *cq, unsigned client,
                             struct vipl_completion *out)
{
    while (take_entry(cq, &out->code)) {
        struct vipl_vi_rings *ring = &arena->vis[out->code >> 1 & (VIPL_SHARE_VIS - 1)];
        struct vipl_ring *queue = &ring->queues[out->code & 1];
        out->vi = vipl_load_ptr((void *const *)&ring->handle);
        if (!is_live(arena, cq, out->code)) {
            continue;
        }
        if (!vipl_arena_holds(arena, client, out->vi)) {
            out->vi = NULL;
            return VIP_NO_MATCH;
        }
        if (announce_next(queue)) {
            out->recv = (out->code & 1) != 0 ? VIP_TRUE : VIP_FALSE;
            return VIP_SUCCESS;
        }
    }
    out->vi = NULL;
    return VIP_NOT_DONE;
}

static bool is_set(const uint32_t *words, uint32_t slot)
{
    /* pairs with the server's change */
    return (vipl_load_acquire(&words[slot / 32]) >> slot % 32 & 1) != 0;
}

bool vipl_arena_holds(const struct vipl_arena *arena, unsigned client, const void *handle)
{
    uint32_t slot = vipl_handle_slot(handle);
    if (arena == NULL || client >= VIPL_SHARE_CLIENTS) {
        return false;
    }
    const struct vipl_holding *holding = &arena->holdings[client];
    switch (vipl_handle_kind(handle)) {
    case VIPL_KIND_VI:
        return slot < VIPL_SHARE_VIS && vipl_load_ptr((void *const *)&arena->vis[slot].handle) == handle &&
               is_set(holding->vis, slot);
    case VIPL_KIND_CQ:
        return slot < VIPL_SHARE_CQS && vipl_load_ptr((void *const *)&arena->cqs[slot].handle) == handle &&
               is_set(holding->cqs, slot);
    case VIPL_KIND_NIC:
        return slot < VIPL_SHARE_NICS && vipl_load_ptr((void *const *)&arena->nics[slot]) == handle &&
               is_set(holding->nics, slot);
    default:
        return false;
    }
}
