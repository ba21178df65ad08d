/* SPDX-License-Identifier: MIT */
/*
 * The sender of a flow. The buffers of frames that arrived are freed in order, and lost frames are
 * sent again. If no acknowledgment comes, first the last frame is sent again, then all frames. A
 * closed window is probed.
 */
#include "devices/rnic/efe/flow.h"

#include "devices/rnic/efe/credit.h"
#include "devices/rnic/efe/inflight.h"
#include "devices/rnic/efe/path.h"
#include "devices/rnic/efe/send.h"

enum { BACKOFF_MAX = 16 };
#define RTT_MAX_US 10000000
#define STAMP_TRUST (1000 * EFE_MS)

bool efe_ack_is_possible(const struct efe_flow *flow, const struct efe_header *header)
{
    return efe_ahead(flow->unsent, header->next_expected) <= 0;
}

/* --- Round trip time --- */

static void ack_sample(struct efe *efe, uint64_t now, struct efe_flow *flow, const struct efe_header *header)
{
    if (flow->echo_taken && header->echo == flow->echo_seen) {
        return;
    }
    flow->echo_taken = true;
    flow->echo_seen = header->echo;
    int32_t rtt = (int32_t)(efe_stamp(now) - header->echo - header->held);
    if (rtt >= -1 && rtt <= RTT_MAX_US) { /* the clocks' microseconds may add up to one too many */
        efe_path_sample(efe_path_of(efe_state(efe), flow), now, (uint64_t)(rtt > 0 ? rtt : 0) * EFE_US);
    }
}

/* --- Window --- */

/* Frames overtake each other: only the youngest one's window counts. */
static void ack_window(uint64_t now, struct efe_flow *flow, const struct efe_header *header)
{
    bool younger = efe_ahead(flow->edge_stamp, header->sent) >= 0 || now - flow->edge_at > STAMP_TRUST;
    if (!younger) {
        return;
    }
    uint32_t window = header->window < EFE_WINDOW_MAX ? header->window : EFE_WINDOW_MAX;
    flow->edge = header->next_expected + window;
    flow->edge_stamp = header->sent;
    flow->edge_at = now;
}

void efe_ack_watch_window(struct efe_state *s, uint64_t now, struct efe_flow *flow)
{
    if (!efe_send_is_stopped(flow)) {
        flow->backoff = flow->probe_at == EFE_NEVER ? flow->backoff : 0;
        flow->probe_at = EFE_NEVER;
    } else if (flow->probe_at == EFE_NEVER) {
        flow->probe_at = now + efe_path_timeout_time(s, efe_path_of(s, flow), flow->backoff);
    }
}

/* --- Acknowledgments --- */

/* Frames before next_expected are done with. Returns whether any of them was not known to have
 * arrived. */
static bool ack_cumulative(struct efe *efe, uint64_t now, struct efe_flow *flow, uint32_t next_expected)
{
    struct efe_state *s = efe_state(efe);
    bool progress = false;
    while (flow->first != next_expected) {
        uint32_t *place = efe_outgoing(flow, flow->first), slot = *place;
        uint64_t tag = efe_slot(s, slot)->tag;
        progress |= efe_inflight_acked(s, flow, slot, now);
        *place = EFE_NONE;
        flow->first++;
        efe_credit_release(s, slot);
        efe->host->acknowledged(efe->context, efe_index(s, flow), tag);
    }
    return progress;
}

static bool ack_selective(struct efe *efe, uint64_t now, struct efe_flow *flow, const uint8_t *sack)
{
    bool progress = false;
    for (uint32_t i = 1; i < flow->unsent - flow->first; i++) {
        if (efe_sack_get(sack, i)) {
            progress |= efe_inflight_acked(efe_state(efe), flow, *efe_outgoing(flow, flow->first + i), now);
        }
    }
    return progress;
}

/* The peer has acknowledged something new: the timers of loss start again. */
static void ack_progress(struct efe_state *s, uint64_t now, struct efe_flow *flow)
{
    efe_inflight_find_lost(s, flow);
    flow->backoff = 0;
    flow->tail_sent = false;
    flow->timeout_at = EFE_NEVER;
    flow->tail_at =
        flow->inflight_first == EFE_NONE ? EFE_NEVER : now + efe_path_tail_time(efe_path_of(s, flow));
}

void efe_ack_receive(struct efe *efe, uint64_t now, struct efe_flow *flow, const struct efe_header *header,
                     const uint8_t *sack)
{
    struct efe_state *s = efe_state(efe);
    ack_sample(efe, now, flow, header);
    if (efe_ahead(flow->first, header->next_expected) < 0) {
        return; /* overtaken by another */
    }
    ack_window(now, flow, header);
    bool progress = ack_cumulative(efe, now, flow, header->next_expected);
    if (sack != NULL) {
        progress |= ack_selective(efe, now, flow, sack);
    }
    if (progress) {
        ack_progress(s, now, flow);
    }
    efe_credit_queue(s, flow);
    efe_send_schedule(s, flow);
    efe_send_pump(efe, now, efe_path_of(s, flow));
    efe_ack_watch_window(s, now, flow);
}

/* --- Timers --- */

static void ack_timeout(struct efe *efe, uint64_t now, struct efe_flow *flow)
{
    struct efe_state *s = efe_state(efe);
    s->counters.timeouts++;
    flow->timeout_at = EFE_NEVER;
    flow->backoff += flow->backoff < BACKOFF_MAX;
    efe_inflight_lose_all(s, flow);
    efe_path_timeout(s, efe_path_of(s, flow), now);
    efe_send_schedule(s, flow);
    efe_send_pump(efe, now, efe_path_of(s, flow));
    efe_ack_watch_window(s, now, flow);
}

static void ack_probe(struct efe *efe, uint64_t now, struct efe_flow *flow)
{
    struct efe_state *s = efe_state(efe);
    flow->backoff += flow->backoff < BACKOFF_MAX;
    flow->probe_at = now + efe_path_timeout_time(s, efe_path_of(s, flow), flow->backoff);
    efe_send_probe(efe, now, flow);
}

void efe_ack_timer(struct efe *efe, uint64_t now, struct efe_flow *flow)
{
    if (flow->ack_at <= now) {
        efe_send_ack(efe, now, flow);
    }
    if (flow->tail_at <= now) {
        efe_send_tail(efe, now, flow);
    }
    if (flow->timeout_at <= now) {
        ack_timeout(efe, now, flow);
    }
    if (flow->probe_at <= now) {
        ack_probe(efe, now, flow);
    }
}
