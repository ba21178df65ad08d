/* SPDX-License-Identifier: MIT */
/* A binary heap of timers by (time, number), and for each timer its place in the heap. */
#include "devices/rnic/efe/table.h"

static uint32_t *timer_heap(const struct efe_state *s)
{
    return (uint32_t *)((char *)s + s->heap_at);
}
/* EFE_NONE: not in the heap. */
static uint32_t *timer_places(const struct efe_state *s)
{
    return (uint32_t *)((char *)s + s->places_at);
}
static uint64_t *timer_dues(const struct efe_state *s)
{
    return (uint64_t *)((char *)s + s->due_at);
}

static bool timer_is_before(const struct efe_state *s, uint32_t a, uint32_t b)
{
    const uint64_t *due = timer_dues(s);
    return due[a] != due[b] ? due[a] < due[b] : a < b;
}

static void timer_put(struct efe_state *s, uint32_t place, uint32_t timer)
{
    timer_heap(s)[place] = timer;
    timer_places(s)[timer] = place;
}

/* The place is empty; the timer goes there, or nearer to the top. */
static void timer_rise(struct efe_state *s, uint32_t place, uint32_t timer)
{
    while (place > 0 && timer_is_before(s, timer, timer_heap(s)[(place - 1) / 2])) {
        timer_put(s, place, timer_heap(s)[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    timer_put(s, place, timer);
}

/* The place is empty; the timer goes there, or farther from the top. */
static void timer_sink(struct efe_state *s, uint32_t place, uint32_t timer)
{
    const uint32_t *heap = timer_heap(s);
    uint32_t count = s->timers;
    for (uint32_t child = 2 * place + 1; child < count; child = 2 * place + 1) {
        if (child + 1 < count && timer_is_before(s, heap[child + 1], heap[child])) {
            child++;
        }
        if (!timer_is_before(s, heap[child], timer)) {
            break;
        }
        timer_put(s, place, heap[child]);
        place = child;
    }
    timer_put(s, place, timer);
}

static void timer_move(struct efe_state *s, uint32_t place, uint32_t timer)
{
    if (place > 0 && timer_is_before(s, timer, timer_heap(s)[(place - 1) / 2])) {
        timer_rise(s, place, timer);
    } else {
        timer_sink(s, place, timer);
    }
}

static void timer_remove(struct efe_state *s, uint32_t timer)
{
    uint32_t place = timer_places(s)[timer], last = timer_heap(s)[--s->timers];
    timer_places(s)[timer] = EFE_NONE;
    if (last != timer) {
        timer_move(s, place, last);
    }
}

void efe_timer_init(struct efe_state *s)
{
    s->timers = 0;
    for (uint32_t timer = 0; timer < 2 * s->config.flows; timer++) {
        timer_places(s)[timer] = EFE_NONE;
        timer_dues(s)[timer] = EFE_NEVER;
    }
}

void efe_timer_set(struct efe_state *s, uint32_t timer, uint64_t due)
{
    uint64_t *dues = timer_dues(s);
    if (dues[timer] == due) {
        return;
    }
    uint32_t place = timer_places(s)[timer];
    dues[timer] = due;
    if (due == EFE_NEVER) {
        timer_remove(s, timer);
    } else if (place == EFE_NONE) {
        timer_rise(s, s->timers++, timer);
    } else {
        timer_move(s, place, timer);
    }
}

uint32_t efe_timer_first(const struct efe_state *s)
{
    return s->timers > 0 ? timer_heap(s)[0] : EFE_NONE;
}

uint64_t efe_timer_due(const struct efe_state *s, uint32_t timer)
{
    return timer_dues(s)[timer];
}
