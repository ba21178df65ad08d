/* SPDX-License-Identifier: MIT */
/* Outgoing frames. Whatever is in a frame about the other direction and about time is filled in at
 * each transmission. */
#include "devices/rnic/efe/send.h"

#include <string.h>

#include "devices/rnic/efe/credit.h"
#include "devices/rnic/efe/inflight.h"
#include "devices/rnic/efe/path.h"
#include "devices/rnic/efe/table.h"

enum { SMALL_BYTES = EFE_PAYLOAD_AT + EFE_SACK_BYTES + EFE_CRC_BYTES, ANSWERS = 64 };
#define RETRY_TIME (20 * EFE_US)
#define ANSWER_TIME EFE_MS
#define DEAD_TIME (5000 * EFE_MS)

/* --- Composing --- */

static uint32_t send_window(const struct efe_state *s, const struct efe_flow *flow)
{
    uint32_t credit = efe_credit_available(s), kept = flow->expected - flow->undelivered;
    return flow->refused || kept >= credit ? 0 : credit - kept;
}

/* The fields that every frame of a flow has. */
static void send_fill(const struct efe_state *s, const struct efe_flow *flow, uint64_t now,
                      struct efe_header *header)
{
    memcpy(header->to_mac, flow->remote_mac, 6);
    memcpy(header->from_mac, s->config.mac, 6);
    header->from_fn = flow->local_fn;
    header->to_fn = flow->remote_fn;
    header->epoch = flow->epoch;
    header->window = (uint16_t)send_window(s, flow);
    header->sent = efe_stamp(now);
    if (flow->heard) {
        header->next_expected = flow->expected;
        header->echo = flow->echo;
        header->held = efe_stamp(now) - efe_stamp(flow->echo_at);
    } else {
        header->flags |= EFE_NEW;
    }
}

static bool send_frame(struct efe *efe, uint8_t *frame, const struct efe_header *header)
{
    efe_frame_write(frame, header);
    bool taken = efe->host->transmit(efe->context, frame, efe_frame_seal(frame));
    efe_state(efe)->counters.sent += taken;
    return taken;
}

/* The peer knows now what came until here; what came behind a gap, only if the frame has a
 * selective acknowledgment. */
static void send_acknowledged(struct efe_flow *flow, bool selective)
{
    if (selective || flow->kept == 0) {
        flow->unacknowledged = 0;
        flow->ack_at = EFE_NEVER;
    }
}

/* --- Frames that are not numbered --- */

static void send_sack(struct efe_flow *flow, uint8_t *sack)
{
    memset(sack, 0, EFE_SACK_BYTES);
    for (uint32_t i = 1; i < EFE_WINDOW_MAX; i++) {
        uint32_t number = flow->expected + i;
        if (number - flow->undelivered < EFE_WINDOW_MAX && *efe_incoming(flow, number) != EFE_NONE) {
            efe_sack_set(sack, i);
        }
    }
}

void efe_send_ack(struct efe *efe, uint64_t now, struct efe_flow *flow)
{
    struct efe_state *s = efe_state(efe);
    uint8_t frame[SMALL_BYTES];
    struct efe_header header = {.type = EFE_ACK, .payload_bytes = EFE_SACK_BYTES, .sequence = flow->unsent};
    send_fill(s, flow, now, &header);
    send_sack(flow, frame + EFE_PAYLOAD_AT);
    if (send_frame(efe, frame, &header)) {
        s->counters.acks++;
        send_acknowledged(flow, true);
    } else {
        flow->ack_at = now + RETRY_TIME;
    }
}

void efe_send_probe(struct efe *efe, uint64_t now, struct efe_flow *flow)
{
    uint8_t frame[SMALL_BYTES];
    struct efe_header header = {.type = EFE_PROBE, .flags = EFE_ACK_NOW, .sequence = flow->unsent};
    send_fill(efe_state(efe), flow, now, &header);
    if (send_frame(efe, frame, &header)) {
        efe_state(efe)->counters.probes++;
        send_acknowledged(flow, false);
    }
}

void efe_send_reset(struct efe *efe, uint64_t now, const struct efe_flow *flow)
{
    uint8_t frame[SMALL_BYTES];
    struct efe_header header = {.type = EFE_RESET, .sequence = flow->unsent};
    send_fill(efe_state(efe), flow, now, &header);
    header.window = 0;
    header.next_expected = flow->heard ? flow->peer_epoch : 0;
    efe_state(efe)->counters.resets_sent += send_frame(efe, frame, &header);
}

/* Returns true if one more answer to an unknown sender may be sent: a burst at first, then one per
 * millisecond. */
static bool send_may_answer(struct efe_state *s, uint64_t now)
{
    uint64_t paid = s->answers_at > now ? s->answers_at : now;
    if (paid - now >= ANSWERS * ANSWER_TIME) {
        s->counters.silent++;
        return false;
    }
    s->answers_at = paid + ANSWER_TIME;
    return true;
}

void efe_send_refusal(struct efe *efe, uint64_t now, const struct efe_header *header)
{
    struct efe_state *s = efe_state(efe);
    if (header->type == EFE_RESET || !send_may_answer(s, now)) {
        return;
    }
    uint8_t frame[SMALL_BYTES];
    struct efe_header reset = {.type = EFE_RESET,
                               .flags = EFE_NEW,
                               .from_fn = header->to_fn,
                               .to_fn = header->from_fn,
                               .next_expected = header->epoch,
                               .sent = efe_stamp(now)};
    memcpy(reset.to_mac, header->from_mac, 6);
    memcpy(reset.from_mac, s->config.mac, 6);
    s->counters.resets_sent += send_frame(efe, frame, &reset);
}

void efe_send_challenge(struct efe *efe, uint64_t now, struct efe_flow *flow)
{
    if (send_may_answer(efe_state(efe), now)) {
        efe_send_ack(efe, now, flow);
    }
}

/* --- Numbered frames --- */

/* The number of the frame to be sent next: a lost one, or the next new one. False: there is none
 * that the peer would take. */
static bool send_next(const struct efe_flow *flow, uint32_t *number)
{
    bool lost = flow->lost_count > 0;
    if (!lost && flow->unsent == flow->end) {
        return false;
    }
    *number = lost ? efe_inflight_first_lost(flow) : flow->unsent;
    return efe_ahead(*number, flow->edge) > 0;
}

bool efe_send_is_stopped(const struct efe_flow *flow)
{
    uint32_t number;
    return efe_outstanding(flow) > 0 && flow->inflight_first == EFE_NONE && !send_next(flow, &number);
}

/* Whether no other frame can follow this one before something is acknowledged. */
static bool send_is_last(const struct efe_state *s, const struct efe_flow *flow, uint32_t number,
                         uint32_t bytes)
{
    const struct efe_path *path = efe_path_of(s, flow);
    return number + 1 == flow->edge || path->in_flight + 2 * bytes > path->window;
}

static void send_set_timers(const struct efe_state *s, struct efe_flow *flow, uint64_t now)
{
    const struct efe_path *path = efe_path_of(s, flow);
    if (!flow->tail_sent && flow->backoff == 0) {
        flow->tail_at = now + efe_path_tail_time(path);
    } else if (flow->timeout_at == EFE_NEVER) {
        flow->timeout_at = now + efe_path_timeout_time(s, path, flow->backoff);
    }
}

static bool send_numbered(struct efe *efe, uint64_t now, struct efe_flow *flow, uint32_t index, bool ack_now)
{
    struct efe_state *s = efe_state(efe);
    struct efe_slot *slot = efe_slot(s, index);
    struct efe_header header = slot->header;
    bool again = slot->state != EFE_SLOT_QUEUED;
    header.flags = (uint8_t)(header.flags | (again || ack_now ? EFE_ACK_NOW : 0));
    send_fill(s, flow, now, &header);
    if (!send_frame(efe, rnic_frames_at(efe_frames(s), index), &header)) {
        return false;
    }
    s->counters.resent += again;
    flow->unsent += !again;
    efe_inflight_sent(s, flow, index, now);
    send_acknowledged(flow, false);
    send_set_timers(s, flow, now);
    return true;
}

void efe_send_tail(struct efe *efe, uint64_t now, struct efe_flow *flow)
{
    flow->tail_sent = true;
    flow->tail_at = EFE_NEVER;
    if (flow->inflight_last != EFE_NONE && !send_numbered(efe, now, flow, flow->inflight_last, true)) {
        send_set_timers(efe_state(efe), flow, now);
    }
}

/* --- Turns --- */

void efe_send_schedule(struct efe_state *s, struct efe_flow *flow)
{
    uint32_t number, index = efe_index(s, flow);
    if (flow->ready || !send_next(flow, &number)) {
        return;
    }
    struct efe_path *path = efe_path_of(s, flow);
    flow->ready = true;
    flow->ready_next = EFE_NONE;
    *(path->ready_first == EFE_NONE ? &path->ready_first : &efe_flow(s, path->ready_last)->ready_next) =
        index;
    path->ready_last = index;
}

static struct efe_flow *turn_take(struct efe_state *s, struct efe_path *path)
{
    struct efe_flow *flow = efe_flow(s, path->ready_first);
    path->ready_first = flow->ready_next;
    flow->ready = false;
    return flow;
}

void efe_send_forget(struct efe_state *s, struct efe_flow *flow)
{
    struct efe_path *path = efe_path_of(s, flow);
    uint32_t previous = EFE_NONE, *link = &path->ready_first, index = efe_index(s, flow);
    while (flow->ready && *link != index) {
        previous = *link;
        link = &efe_flow(s, previous)->ready_next;
    }
    if (flow->ready) {
        *link = flow->ready_next;
        path->ready_last = path->ready_last == index ? previous : path->ready_last;
        flow->ready = false;
    }
}

static void path_block(struct efe_state *s, struct efe_path *path)
{
    if (!path->blocked) {
        path->blocked = true;
        path->blocked_next = s->blocked_first;
        s->blocked_first = efe_path_index(s, path);
    }
}

/* One frame of the flow whose turn it is. False: it, and with it all others, must wait. */
static bool pump_one(struct efe *efe, uint64_t now, struct efe_path *path)
{
    struct efe_state *s = efe_state(efe);
    struct efe_flow *flow = efe_flow(s, path->ready_first);
    uint32_t number;
    if (!send_next(flow, &number)) {
        turn_take(s, path); /* what was lost has arrived, or the peer's window is smaller */
        return true;
    }
    uint32_t slot = *efe_outgoing(flow, number), bytes = efe_inflight_bytes(efe_slot(s, slot));
    if (!efe_path_may_send(s, path, now, bytes)) {
        return false;
    }
    if (!send_numbered(efe, now, flow, slot, send_is_last(s, flow, number, bytes))) {
        path_block(s, path);
        return false;
    }
    efe_path_sent(path, now, bytes);
    turn_take(s, path);
    efe_send_schedule(s, flow);
    efe_send_refresh(s, flow);
    return true;
}

void efe_send_pump(struct efe *efe, uint64_t now, struct efe_path *path)
{
    struct efe_state *s = efe_state(efe);
    while (path->ready_first != EFE_NONE && !path->blocked && pump_one(efe, now, path)) {
    }
    bool paced = path->ready_first != EFE_NONE && !path->blocked && efe_path_next_send(s, path) > now;
    efe_timer_set(s, s->config.flows + efe_path_index(s, path),
                  paced ? efe_path_next_send(s, path) : EFE_NEVER);
}

void efe_send_again(struct efe_state *s, uint64_t now, const struct efe_flow *flow)
{
    efe_timer_set(s, s->config.flows + flow->path, now);
}

/* --- Timers --- */

static uint64_t min_time(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t efe_send_dead_at(const struct efe_flow *flow)
{
    bool gap = flow->kept > flow->expected - flow->undelivered;
    return efe_outstanding(flow) > 0 || gap ? flow->valid_at + DEAD_TIME : EFE_NEVER;
}

void efe_send_refresh(struct efe_state *s, struct efe_flow *flow)
{
    bool outstanding = efe_outstanding(flow) > 0;
    uint64_t due =
        min_time(min_time(flow->ack_at, flow->tail_at), min_time(flow->timeout_at, flow->probe_at));
    efe_timer_set(s, efe_index(s, flow), min_time(due, efe_send_dead_at(flow)));
    efe_table_set_idle(s, flow,
                       flow->users == 0 && !outstanding && flow->kept == 0 && flow->unacknowledged == 0 &&
                           flow->reserved == EFE_NONE && !flow->wants_room);
}
