/* SPDX-License-Identifier: MIT */
/* The ring between two processes. */
#include "backends/loopback/ring.h"

#include <errno.h>
#include <string.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "os/os_compiler.h"

/* Offsets of the words of a head: the layout that both processes use. */
enum {
    H_LAP = 0,
    H_KIND = 4,
    H_SESSION = 8,
    H_BYTES = 12,
    H_SLOT = 16,
    H_IMMEDIATE = 20,
    H_TOTAL = 24,
    H_OFFSET = 28
};

static uint32_t slots_for(uint32_t bytes)
{
    return (LO_HEAD + bytes + LO_RING_SLOT - 1) / LO_RING_SLOT;
}

static unsigned char *slot_at(const struct lo_ring *ring, uint32_t position)
{
    return ring->slots + (size_t)(position & (ring->count - 1)) * LO_RING_SLOT;
}

static uint32_t *head_word(unsigned char *head, unsigned offset)
{
    return (uint32_t *)(void *)(head + offset);
}

static uint32_t lap_of(const struct lo_ring *ring, uint32_t position)
{
    return (position >> ring->shift) * 2 + 1; /* never 0 */
}

/* Gets memory for `wanted` slots from the current position on, and for some more. Returns false if
 * there is none. */
static bool back_slots(struct lo_ring *ring, uint32_t wanted)
{
    enum { STEP = 1024 };
    uint32_t more = ring->at + wanted - ring->backed;
    more = more < STEP ? STEP : more;
    more = more < ring->count - ring->backed ? more : ring->count - ring->backed;
    int error =
        vipl_shm_allocate(ring->slots + (size_t)ring->backed * LO_RING_SLOT, (size_t)more * LO_RING_SLOT);
    if (error == ENOTSUP) { /* then the maker of the segment has allocated all of it */
        ring->backed = ring->count;
        return true;
    }
    vipl_store_relaxed(&ring->starved, error != 0 ? 1 : 0);
    ring->backed += error == 0 ? more : 0;
    return error == 0;
}

/* As get_free_slots(), where the ring looks full or some slots have no memory yet. In the first lap
 * a message that leaves the reserve free comes here although there is memory for the message: the
 * reserve need not have any. */
static VIPL_NOINLINE uint32_t look_for_slots(struct lo_ring *ring, uint32_t wanted, uint32_t reserve)
{
    uint32_t head = vipl_load_acquire(&ring->shared->head); /* pairs with vipl_lo_ring_release */
    uint32_t used = ring->at - head;
    if (used > ring->count) {
        return 0; /* a consumer that lies gets no messages */
    }
    uint32_t room = ring->count - used;
    if (room < wanted) {
        return room;
    }
    /* in the first lap, a position is the number of a slot */
    bool is_backed = ring->backed == ring->count || ring->at + (wanted - reserve) <= ring->backed;
    if (!is_backed && !back_slots(ring, wanted - reserve)) {
        return 0;
    }
    ring->known = ring->backed == ring->count ? head + ring->count : ring->backed;
    return room;
}

/* Returns how many slots are free: at least `wanted`, or less if the ring is full. The last
 * `reserve` of those are not for this message. */
static uint32_t get_free_slots(struct lo_ring *ring, uint32_t wanted, uint32_t reserve)
{
    uint32_t room = ring->known - ring->at;
    return room < wanted || room > ring->count ? look_for_slots(ring, wanted, reserve) : room;
}

static uint32_t slots_to_end(const struct lo_ring *ring)
{
    return ring->count - (ring->at & (ring->count - 1));
}

/* Makes sure that what lies behind the message does not look like the head of the next message. Old
 * payload may; a head of an earlier lap does not. This is therefore a load, and hardly ever a
 * store, which would take the cache line from the consumer that polls it. */
static void clear_behind(struct lo_ring *ring, uint32_t slots)
{
    uint32_t next = ring->at + slots;
    uint32_t *lap = head_word(slot_at(ring, next), H_LAP);
    if (vipl_load_relaxed(lap) == lap_of(ring, next)) {
        vipl_store_relaxed(lap, 0); /* before the store that publishes the message */
    }
}

static void write_head(struct lo_ring *ring, const struct lo_message *m, uint32_t slots)
{
    unsigned char *head = slot_at(ring, ring->at);
    clear_behind(ring, slots);
    *head_word(head, H_KIND) = m->type | (uint32_t)m->flags << 8 | slots << 16;
    *head_word(head, H_SESSION) = m->session;
    *head_word(head, H_BYTES) = m->bytes;
    *head_word(head, H_SLOT) = m->slot;
    *head_word(head, H_IMMEDIATE) = m->immediate;
    *head_word(head, H_TOTAL) = m->total;
    *head_word(head, H_OFFSET) = m->offset;
}

unsigned char *vipl_lo_ring_claim(struct lo_ring *ring, uint32_t bytes, bool reply)
{
    uint32_t slots = slots_for(bytes);
    uint32_t end = slots_to_end(ring);
    uint32_t pad = slots > end ? end : 0;
    /* the 1 is the slot whose lap is cleared */
    uint32_t reserve = reply ? 0 : LO_RESERVE;
    uint32_t wanted = pad + slots + 1 + reserve;
    if (get_free_slots(ring, wanted, reserve) < wanted) {
        return NULL;
    }
    if (pad > 0) {
        struct lo_message m = {.type = LO_PAD};
        write_head(ring, &m, pad);
        vipl_store_release(head_word(slot_at(ring, ring->at), H_LAP), lap_of(ring, ring->at));
        ring->at += pad;
    }
    return slot_at(ring, ring->at) + LO_HEAD;
}

bool vipl_lo_ring_publish(struct lo_ring *ring, const struct lo_message *message)
{
    uint32_t slots = slots_for(message->bytes);
    write_head(ring, message, slots);
    uint32_t *lap = head_word(slot_at(ring, ring->at), H_LAP);
    uint32_t value = lap_of(ring, ring->at);
    /* Ordered before the load of `asleep`, here or by the consumer's barrier: either this thread
     * sees the consumer's mark, or the consumer sees the message before it sleeps. */
    if (VIPL_LIKELY(ring->relies)) {
        vipl_store_release(lap, value);
        vipl_signal_fence();
    } else {
        vipl_store_ordered(lap, value);
    }
    ring->at += slots;
    return vipl_load_ordered(&ring->shared->asleep) != 0 && vipl_exchange(&ring->shared->asleep, 0) != 0;
}

/* The store is ordered: the next message sees the mark of a consumer that sleeps already, without a
 * barrier. */
bool vipl_lo_ring_rely(struct lo_ring *ring)
{
    /* pairs with link_start() of the consumer */
    if (!ring->relies && vipl_load_acquire(&ring->shared->sleeps_properly) != 0) {
        /* pairs with vipl_lo_ring_mark_asleep() */
        vipl_store_ordered(&ring->shared->relies, 1);
        ring->relies = true;
    }
    return ring->relies;
}

uint32_t vipl_lo_ring_room(struct lo_ring *ring, uint32_t most)
{
    uint32_t wanted = slots_for(most) + 1 + LO_RESERVE;
    uint32_t room = get_free_slots(ring, wanted, LO_RESERVE);
    if (room < LO_RESERVE + 2) {
        return 0;
    }
    room -= LO_RESERVE + 1;
    /* the larger piece: up to the end of the ring, or from its start */
    if (room > slots_to_end(ring)) {
        uint32_t behind = room - slots_to_end(ring);
        room = behind > slots_to_end(ring) ? behind : slots_to_end(ring);
    }
    uint32_t bytes = room * LO_RING_SLOT - LO_HEAD;
    return bytes < most ? bytes : most;
}

enum lo_peek vipl_lo_ring_peek(struct lo_ring *ring, struct lo_message *out, const unsigned char **payload)
{
    for (;;) {
        unsigned char *head = slot_at(ring, ring->at);
        /* pairs with publish */
        if (vipl_load_acquire(head_word(head, H_LAP)) != lap_of(ring, ring->at)) {
            return LO_PEEK_EMPTY;
        }
        uint32_t kind = vipl_load_relaxed(head_word(head, H_KIND));
        uint32_t slots = kind >> 16;
        if (slots == 0 || slots > slots_to_end(ring)) {
            return LO_PEEK_BROKEN;
        }
        if ((kind & 0xFF) == LO_PAD) {
            if (slots != slots_to_end(ring) || slots == ring->count) {
                return LO_PEEK_BROKEN;
            }
            ring->at += slots; /* to the start of the ring, where there can be no padding */
            continue;
        }
        out->type = kind & 0xFF;
        out->flags = kind >> 8 & 0xFF;
        out->session = vipl_load_relaxed(head_word(head, H_SESSION));
        out->bytes = vipl_load_relaxed(head_word(head, H_BYTES));
        out->slot = vipl_load_relaxed(head_word(head, H_SLOT));
        out->immediate = vipl_load_relaxed(head_word(head, H_IMMEDIATE));
        out->total = vipl_load_relaxed(head_word(head, H_TOTAL));
        out->offset = vipl_load_relaxed(head_word(head, H_OFFSET));
        if (out->bytes > slots * LO_RING_SLOT - LO_HEAD || slots_for(out->bytes) != slots) {
            return LO_PEEK_BROKEN;
        }
        *payload = head + LO_HEAD;
        return LO_PEEK_OK;
    }
}

void vipl_lo_ring_pop(struct lo_ring *ring, const struct lo_message *message)
{
    ring->at += slots_for(message->bytes);
    if ((ring->at & 63) == 0) { /* now and then in a long batch; vipl_lo_ring_release() ends it */
        vipl_store_release(&ring->shared->head, ring->at);
    }
}

bool vipl_lo_ring_mark_asleep(struct lo_ring *ring)
{
    vipl_store_ordered(&ring->shared->asleep, 1);
    return vipl_load_ordered(&ring->shared->relies) != 0; /* pairs with vipl_lo_ring_rely() */
}

uint32_t *vipl_lo_ring_next(const struct lo_ring *ring, uint32_t *value)
{
    *value = lap_of(ring, ring->at);
    return head_word(slot_at(ring, ring->at), H_LAP);
}

bool vipl_lo_ring_is_empty(const struct lo_ring *ring)
{
    return vipl_load_ordered(head_word(slot_at(ring, ring->at), H_LAP)) != lap_of(ring, ring->at);
}

/* The store is ordered before the load of `wanting`: either the producer sees the room, or this
 * thread sees that the producer waits. A plain store suffices while the ring is empty and the
 * producer surely knows that seven eighths of it are free: it can then only wait after further
 * messages, which lead here again. */
bool vipl_lo_ring_release(struct lo_ring *ring, bool empty)
{
    if (empty && ring->at - ring->known < ring->count / 8) {
        vipl_store_release(&ring->shared->head, ring->at);
    } else {
        vipl_store_ordered(&ring->shared->head, ring->at);
        ring->known = ring->at;
    }
    return vipl_load_ordered(&ring->shared->wanting) != 0 && vipl_exchange(&ring->shared->wanting, 0) != 0;
}
