/* SPDX-License-Identifier: MIT */
/*
 * The embedded switch. A frame is held by the impairment until it is due, in a heap by (time, order
 * of coming), then waits in the queue of its function, a list. Queues with frames take turns.
 */
#include "devices/rnic/efe/switch.h"

#include <string.h>

#include "devices/rnic/efe/frame.h"
#include "devices/rnic/efe/frames.h"
#include "devices/rnic/efe/layout.h"
#include "iwarp/bytes.h"

enum {
    NONE = RNIC_NO_FRAME,
    TYPE_AT = 12, /* of a frame */
    TO_FN_AT = 20,
    RAW_SHARE = 2, /* raw frames have at most one in this number of the buffers */
    QUEUE_MIN = 4  /* frames of a queue, however few buffers are free */
};

/* Frames for one function. */
struct queue {
    uint32_t first, last; /* links of struct slot; NONE: empty */
    uint32_t count;
    uint32_t next; /* the queue that has its turn after this one, while this one is not empty */
};

/* A buffer's description, with the buffer's index. */
struct slot {
    uint32_t next;   /* in its queue */
    uint32_t bytes;  /* of the frame */
    uint32_t target; /* the queue that it is for; NONE: it leaves */
};

/* A frame that the impairment holds. */
struct held {
    uint64_t due;
    uint64_t order; /* of coming */
    uint32_t frame;
    uint32_t unused;
};

struct state {
    struct rnic_switch_config config;
    struct rnic_switch_counters counters;
    struct rnic_impair impair;
    bool perfect;             /* what rnic_impair_is_perfect() says of it */
    uint32_t turn, last_turn; /* the queues that are not empty, in a list; NONE: all are */
    uint32_t held_count;
    uint64_t order; /* of the next frame that is held */
    /* Where in the area: */
    uint64_t queues_at, slots_at, held_at, frames_at;
};

/* --- The area --- */

static struct state *state_of(const struct rnic_switch *sw)
{
    return sw->area;
}
static struct queue *queues_of(struct state *s)
{
    return (struct queue *)((char *)s + s->queues_at);
}
static struct slot *slots_of(struct state *s)
{
    return (struct slot *)((char *)s + s->slots_at);
}
static struct held *heap_of(struct state *s)
{
    return (struct held *)((char *)s + s->held_at);
}
static struct rnic_frames *frames_of(struct state *s)
{
    return (struct rnic_frames *)((char *)s + s->frames_at);
}

static size_t line_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Sets where things are; returns the area's bytes. */
static size_t state_lay_out(struct state *s, const struct rnic_switch_config *config)
{
    s->queues_at = line_up(sizeof *s);
    s->slots_at = s->queues_at + line_up((config->functions + 1) * sizeof(struct queue));
    s->held_at = s->slots_at + line_up(config->frames * sizeof(struct slot));
    s->frames_at = s->held_at + line_up(config->frames * sizeof(struct held));
    return s->frames_at + rnic_frames_bytes(config->frames, config->mtu);
}

size_t rnic_switch_bytes(const struct rnic_switch_config *config)
{
    struct state s;
    return state_lay_out(&s, config);
}

void rnic_switch_init(struct rnic_switch *sw, void *area, const struct rnic_switch_config *config,
                      const struct rnic_switch_host *host, void *context)
{
    rnic_switch_attach(sw, area, host, context);
    struct state *s = state_of(sw);
    s->config = *config;
    state_lay_out(s, config);
    s->turn = s->last_turn = NONE;
    for (uint32_t fn = 0; fn <= config->functions; fn++) {
        queues_of(s)[fn] = (struct queue){.first = NONE, .last = NONE, .next = NONE};
    }
    rnic_frames_init(frames_of(s), config->frames, config->mtu);
    rnic_switch_impair(sw, &config->impair);
}

void rnic_switch_attach(struct rnic_switch *sw, void *area, const struct rnic_switch_host *host,
                        void *context)
{
    *sw = (struct rnic_switch){.area = area, .host = host, .context = context};
}

bool rnic_switch_swap(void *area, const struct rnic_switch_config *config)
{
    struct state *s = area;
    struct state here = {.config = *config};
    state_lay_out(&here, config);
    if (rnic_layout_switch.bytes != sizeof(*s) || rnic_layout_switch_queue.bytes != sizeof(struct queue) ||
        rnic_layout_switch_slot.bytes != sizeof(struct slot) ||
        rnic_layout_switch_held.bytes != sizeof(struct held)) {
        return false;
    }
    rnic_layout_swap(&rnic_layout_switch, s, 1);
    if (s->queues_at != here.queues_at || s->slots_at != here.slots_at || s->held_at != here.held_at ||
        s->frames_at != here.frames_at) {
        return false;
    }
    rnic_layout_swap(&rnic_layout_switch_queue, queues_of(s), (uint64_t)config->functions + 1);
    rnic_layout_swap(&rnic_layout_switch_slot, slots_of(s), config->frames);
    rnic_layout_swap(&rnic_layout_switch_held, heap_of(s), config->frames);
    return rnic_frames_swap(frames_of(s), config->frames, config->mtu);
}

void rnic_switch_impair(struct rnic_switch *sw, const struct rnic_impair_config *impair)
{
    struct state *s = state_of(sw);
    s->config.impair = *impair;
    rnic_impair_init(&s->impair, impair);
    s->perfect = rnic_impair_is_perfect(impair);
}

const struct rnic_switch_counters *rnic_switch_counted(const struct rnic_switch *sw)
{
    return &state_of(sw)->counters;
}

/* --- Queues --- */

/* The queue has its turn after all others that wait for theirs. */
static void turn_append(struct state *s, uint32_t target)
{
    queues_of(s)[target].next = NONE;
    if (s->turn == NONE) {
        s->turn = target;
    } else {
        queues_of(s)[s->last_turn].next = target;
    }
    s->last_turn = target;
}

static uint32_t turn_take(struct state *s)
{
    uint32_t target = s->turn;
    s->turn = queues_of(s)[target].next;
    return target;
}

static void queue_append(struct state *s, uint32_t frame)
{
    uint32_t target = slots_of(s)[frame].target;
    struct queue *queue = &queues_of(s)[target];
    slots_of(s)[frame].next = NONE;
    if (queue->first == NONE) {
        queue->first = frame;
        turn_append(s, target);
    } else {
        slots_of(s)[queue->last].next = frame;
    }
    queue->last = frame;
    queue->count++;
}

static uint32_t queue_take(struct state *s, uint32_t target)
{
    struct queue *queue = &queues_of(s)[target];
    uint32_t frame = queue->first;
    queue->first = slots_of(s)[frame].next;
    queue->count--;
    if (queue->first != NONE) {
        turn_append(s, target);
    }
    return frame;
}

/* A queue may have as many frames as there are free buffers: it can be long while it is alone. */
static bool queue_has_room(struct state *s, uint32_t target)
{
    uint32_t free = s->config.frames - frames_of(s)->taken;
    uint32_t count = queues_of(s)[target].count;
    return free > 0 && (count < free || count < QUEUE_MIN);
}

/* --- What the impairment holds --- */

static bool held_is_before(const struct held *a, const struct held *b)
{
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void held_add(struct state *s, uint64_t due, uint32_t frame)
{
    struct held *heap = heap_of(s), added = {.due = due, .order = s->order++, .frame = frame};
    uint32_t at = s->held_count++;
    for (; at > 0 && held_is_before(&added, &heap[(at - 1) / 2]); at = (at - 1) / 2) {
        heap[at] = heap[(at - 1) / 2];
    }
    heap[at] = added;
}

static uint32_t held_take(struct state *s)
{
    struct held *heap = heap_of(s), moved = heap[--s->held_count];
    uint32_t frame = heap[0].frame, at = 0, count = s->held_count;
    for (uint32_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && held_is_before(&heap[child + 1], &heap[child])) {
            child++;
        }
        if (!held_is_before(&heap[child], &moved)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
    return frame;
}

/* --- Frames --- */

static uint32_t frame_target(struct state *s, const uint8_t *frame)
{
    if (memcmp(frame, s->config.mac, sizeof s->config.mac) != 0) {
        return NONE;
    }
    uint32_t fn = vipl_get16(frame + TYPE_AT) == EFE_ETHERTYPE ? vipl_get16(frame + TO_FN_AT) : EFE_ADAPTER;
    return fn < s->config.functions ? fn : s->config.functions;
}

/* A copy of the frame in a buffer; NONE: all are in use. */
static uint32_t frame_keep(struct state *s, const uint8_t *frame, uint32_t bytes, uint32_t target)
{
    uint32_t index = rnic_frames_take(frames_of(s));
    if (index != NONE) {
        memcpy(rnic_frames_at(frames_of(s), index), frame, bytes);
        slots_of(s)[index] = (struct slot){.next = NONE, .bytes = bytes, .target = target};
    }
    return index;
}

static void frame_leave(const struct rnic_switch *sw, const uint8_t *frame, uint32_t bytes)
{
    state_of(sw)->counters.left++;
    sw->host->transmit(sw->context, frame, bytes);
}

static void frame_hold(struct state *s, const uint8_t *frame, uint32_t bytes, uint32_t target, uint64_t due,
                       bool corrupted)
{
    uint32_t index = frame_keep(s, frame, bytes, target);
    if (index == NONE) {
        s->counters.overflow++;
        return;
    }
    if (corrupted) {
        rnic_impair_corrupt(&s->impair, rnic_frames_at(frames_of(s), index), bytes);
        s->counters.corrupted++;
    }
    held_add(s, due, index);
}

static void frame_impair(struct state *s, uint64_t ready, const uint8_t *frame, uint32_t bytes,
                         uint32_t target)
{
    struct rnic_fate fate;
    rnic_impair_decide(&s->impair, ready, bytes, &fate);
    if (fate.overflow) {
        s->counters.overflow++;
    } else if (fate.copies == 0) {
        s->counters.lost++;
    } else if (fate.copies == 2) {
        s->counters.doubled++;
    }
    for (unsigned i = 0; i < fate.copies; i++) {
        frame_hold(s, frame, bytes, target, fate.due[i], fate.corrupted[i]);
    }
}

static bool is_frame_size(const struct state *s, uint32_t bytes)
{
    return bytes >= EFE_PAYLOAD_AT && bytes <= EFE_ETHERNET_BYTES + s->config.mtu;
}

static bool is_raw_size(const struct state *s, uint32_t bytes)
{
    return bytes >= EFE_ETHERNET_BYTES && bytes <= EFE_ETHERNET_BYTES + EFE_TAG_BYTES + s->config.mtu;
}

static bool frame_send(struct rnic_switch *sw, uint64_t now, uint64_t ready, const uint8_t *frame,
                       uint32_t bytes)
{
    struct state *s = state_of(sw);
    uint32_t target = frame_target(s, frame);
    if (target != NONE && !queue_has_room(s, target)) {
        s->counters.refused++;
        return false;
    }
    if (!s->perfect || ready > now) {
        frame_impair(s, ready, frame, bytes, target);
    } else if (target != NONE) {
        queue_append(s, frame_keep(s, frame, bytes, target));
    } else {
        frame_leave(sw, frame, bytes);
    }
    return true;
}

bool rnic_switch_send(struct rnic_switch *sw, uint64_t now, uint64_t ready, const uint8_t *frame,
                      uint32_t bytes)
{
    struct state *s = state_of(sw);
    if (!is_frame_size(s, bytes)) {
        s->counters.lost++;
        return true;
    }
    return frame_send(sw, now, ready, frame, bytes);
}

bool rnic_switch_send_raw(struct rnic_switch *sw, uint64_t now, uint64_t ready, const uint8_t *frame,
                          uint32_t bytes)
{
    struct state *s = state_of(sw);
    if (!is_raw_size(s, bytes)) {
        s->counters.lost++;
        return true;
    }
    return frame_send(sw, now, ready, frame, bytes);
}

uint64_t rnic_switch_room(const struct rnic_switch *sw, const uint8_t *frame, uint32_t bytes)
{
    struct state *s = state_of(sw);
    uint32_t target = frame_target(s, frame);
    uint32_t free = s->config.frames - frames_of(s)->taken;
    if (target != NONE && !queue_has_room(s, target)) {
        return UINT64_MAX;
    }
    if (free <= s->config.frames / RAW_SHARE) {
        return s->held_count > 0 ? heap_of(s)[0].due : UINT64_MAX;
    }
    return rnic_impair_room(&s->impair, bytes);
}

bool rnic_switch_take(struct rnic_switch *sw, const uint8_t *frame, uint32_t bytes)
{
    struct state *s = state_of(sw);
    if (!(is_frame_size(s, bytes) ||
          (is_raw_size(s, bytes) && vipl_get16(frame + TYPE_AT) != EFE_ETHERTYPE))) {
        return false;
    }
    uint32_t target = frame_target(s, frame);
    uint32_t index = frame_keep(s, frame, bytes, target == NONE ? s->config.functions : target);
    if (index != NONE) {
        queue_append(s, index);
    } else {
        s->counters.overflow++;
    }
    return true;
}

static void switch_release(struct rnic_switch *sw, uint64_t now)
{
    struct state *s = state_of(sw);
    while (s->held_count > 0 && heap_of(s)[0].due <= now) {
        uint32_t frame = held_take(s);
        if (slots_of(s)[frame].target != NONE) {
            queue_append(s, frame);
            continue;
        }
        frame_leave(sw, rnic_frames_at(frames_of(s), frame), slots_of(s)[frame].bytes);
        rnic_frames_give(frames_of(s), frame);
    }
}

uint32_t rnic_switch_advance(struct rnic_switch *sw, uint64_t now, uint32_t most)
{
    struct state *s = state_of(sw);
    switch_release(sw, now);
    uint32_t count = 0;
    for (; count < most && s->turn != NONE; count++) {
        uint32_t frame = queue_take(s, turn_take(s));
        s->counters.local++;
        sw->host->arrive(sw->context, rnic_frames_at(frames_of(s), frame), slots_of(s)[frame].bytes);
        rnic_frames_give(frames_of(s), frame);
    }
    return count;
}

uint64_t rnic_switch_deadline(const struct rnic_switch *sw, bool takes)
{
    struct state *s = state_of(sw);
    if (takes && s->turn != NONE) {
        return 0;
    }
    return s->held_count > 0 ? heap_of(s)[0].due : UINT64_MAX;
}
