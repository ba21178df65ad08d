/* SPDX-License-Identifier: MIT */
/*
 * The receiver of a flow. A frame is accepted if it belongs to the present epoch of the flow: its
 * epoch is that of the peer, and the frames that it acknowledges were sent. A frame that is not
 * accepted changes nothing.
 */
#include "devices/rnic/efe/flow.h"

#include <string.h>

#include "devices/rnic/efe/credit.h"
#include "devices/rnic/efe/send.h"
#include "devices/rnic/efe/table.h"

enum { ACK_FRAMES = 2 };
#define ACK_TIME (100 * EFE_US)

/* --- Delivery --- */

static bool deliver_frame(struct efe *efe, struct efe_flow *flow, const struct efe_header *header,
                          const uint8_t *payload)
{
    struct efe_state *s = efe_state(efe);
    flow->refused = !efe->host->deliver(efe->context, efe_index(s, flow), header, payload);
    s->counters.delivered += !flow->refused;
    flow->undelivered += !flow->refused;
    return !flow->refused;
}

void efe_receive_deliver(struct efe *efe, struct efe_flow *flow)
{
    struct efe_state *s = efe_state(efe);
    flow->refused = false;
    uint32_t slot;
    while ((slot = *efe_incoming(flow, flow->undelivered)) != EFE_NONE) {
        uint32_t number = flow->undelivered;
        if (!deliver_frame(efe, flow, &efe_slot(s, slot)->header,
                           rnic_frames_at(efe_frames(s), slot) + EFE_PAYLOAD_AT)) {
            return;
        }
        *efe_incoming(flow, number) = EFE_NONE;
        flow->kept--;
        efe_credit_release(s, slot);
    }
}

/* Everything up to the first gap has come. */
static void receive_count(struct efe_flow *flow)
{
    if (efe_ahead(flow->expected, flow->undelivered) > 0) {
        flow->expected = flow->undelivered;
    }
    while (flow->expected - flow->undelivered < EFE_WINDOW_MAX &&
           *efe_incoming(flow, flow->expected) != EFE_NONE) {
        flow->expected++;
    }
}

/* --- Numbered frames --- */

static void receive_keep(struct efe *efe, struct efe_flow *flow, const struct efe_header *header,
                         const uint8_t *frame)
{
    struct efe_state *s = efe_state(efe);
    uint32_t slot = efe_credit_keep(s, flow);
    if (slot == EFE_NONE) {
        s->counters.no_buffer++;
        return;
    }
    efe_slot(s, slot)->header = *header;
    memcpy(rnic_frames_at(efe_frames(s), slot) + EFE_PAYLOAD_AT, frame + EFE_PAYLOAD_AT,
           header->payload_bytes);
    *efe_incoming(flow, header->sequence) = slot;
    flow->kept++;
}

/* A frame that has not come yet. */
static void receive_new(struct efe *efe, struct efe_flow *flow, const struct efe_header *header,
                        const uint8_t *frame)
{
    if (header->sequence != flow->undelivered || flow->refused ||
        !deliver_frame(efe, flow, header, frame + EFE_PAYLOAD_AT)) {
        receive_keep(efe, flow, header, frame);
    } else if (flow->kept > 0) {
        efe_receive_deliver(efe, flow);
    }
    receive_count(flow);
}

/* An acknowledgment is due at once if the peer asks for it or may miss something, otherwise with
 * every second frame, or soon. */
static void receive_owe_ack(uint64_t now, struct efe_flow *flow, bool at_once)
{
    flow->unacknowledged++;
    if (at_once || flow->unacknowledged >= ACK_FRAMES) {
        flow->ack_at = now;
    } else if (flow->ack_at == EFE_NEVER) {
        flow->ack_at = now + ACK_TIME;
    }
}

/* What is sent from within deliver_frame() does not acknowledge the frame that is being delivered,
 * so that this is owed after it. */
static void receive_numbered(struct efe *efe, uint64_t now, struct efe_flow *flow,
                             const struct efe_header *header, const uint8_t *frame)
{
    struct efe_counters *counters = &efe_state(efe)->counters;
    bool at_once = header->sequence != flow->expected || flow->kept > 0 || (header->flags & EFE_ACK_NOW) != 0;
    bool is_past = efe_ahead(flow->expected, header->sequence) < 0;
    if (!is_past && header->sequence - flow->undelivered >= EFE_WINDOW_MAX) {
        counters->outside++;
    } else if (is_past || *efe_incoming(flow, header->sequence) != EFE_NONE) {
        counters->duplicates++;
    } else {
        receive_new(efe, flow, header, frame);
    }
    receive_owe_ack(now, flow, at_once || flow->refused);
}

/* --- Which life of the flow --- */

/* A peer's first frames: it cannot have sent more than a window since its epoch began. */
static bool header_is_early(const struct efe_header *header)
{
    return header->epoch != 0 && header->sequence - header->epoch <= EFE_WINDOW_MAX;
}

static void flow_hear(struct efe_flow *flow, uint64_t now, const struct efe_header *header)
{
    flow->heard = true;
    flow->peer_epoch = header->epoch;
    flow->expected = flow->undelivered = header->epoch;
    flow->edge_stamp = header->sent;
    flow->edge_at = now;
}

/* The frame is of no flow that is here. */
static void receive_unknown(struct efe *efe, uint64_t now, const struct efe_header *header)
{
    efe_state(efe)->counters.unknown_epoch++;
    efe_send_refusal(efe, now, header);
}

/* No flow has the frame's ends. NULL: and it begins none. */
static struct efe_flow *receive_first(struct efe *efe, uint64_t now, const struct efe_header *header)
{
    bool begins = (header->flags & EFE_NEW) != 0 && efe_type_is_numbered(header->type);
    if (!begins || !header_is_early(header)) {
        receive_unknown(efe, now, header);
        return NULL;
    }
    struct efe_flow *flow = efe_life_begin(efe, now, header->to_fn, header->from_mac, header->from_fn);
    if (flow != NULL) {
        flow_hear(flow, now, header);
    }
    return flow;
}

/* The flow's first frame from the peer. False: it is not of this flow's life. */
static bool receive_hears(struct efe *efe, uint64_t now, struct efe_flow *flow,
                          const struct efe_header *header)
{
    bool answers = flow->unsent - header->next_expected <= flow->unsent - flow->epoch;
    if (!header_is_early(header) || ((header->flags & EFE_NEW) == 0 && !answers)) {
        receive_unknown(efe, now, header);
        return false;
    }
    flow_hear(flow, now, header);
    return true;
}

static bool receive_is_believed(struct efe *efe, uint64_t now, struct efe_flow *flow,
                                const struct efe_header *header)
{
    struct efe_state *s = efe_state(efe);
    if (!flow->heard && !receive_hears(efe, now, flow, header)) {
        return false;
    }
    bool begins = (header->flags & EFE_NEW) != 0;
    if (header->epoch == flow->peer_epoch) {
        bool possible = begins || efe_ack_is_possible(flow, header);
        s->counters.impossible += !possible;
        return possible;
    }
    if (!begins) {
        receive_unknown(efe, now, header);
        return false;
    }
    s->counters.unknown_epoch++;
    efe_send_challenge(efe, now, flow);
    return false;
}

static void receive_reset(struct efe *efe, uint64_t now, struct efe_flow *flow,
                          const struct efe_header *header)
{
    struct efe_counters *counters = &efe_state(efe)->counters;
    bool mine = flow != NULL && header->next_expected == flow->epoch;
    bool theirs = flow != NULL && flow->heard && header->epoch == flow->peer_epoch;
    if (mine || theirs) {
        counters->resets_received++;
        efe_life_end(efe, now, flow, EFE_DEAD_RESET);
    } else {
        counters->impossible += flow != NULL;
    }
}

/* --- All frames --- */

static void receive_believed(struct efe *efe, uint64_t now, struct efe_flow *flow,
                             const struct efe_header *header, const uint8_t *frame)
{
    flow->valid_at = now;
    flow->echo = header->sent;
    flow->echo_at = now;
    bool numbered = efe_type_is_numbered(header->type);
    if (numbered) {
        receive_numbered(efe, now, flow, header, frame);
    } else if (header->type == EFE_PROBE) {
        receive_owe_ack(now, flow, true);
    }
    if ((header->flags & EFE_NEW) == 0) {
        efe_ack_receive(efe, now, flow, header, header->type == EFE_ACK ? frame + EFE_PAYLOAD_AT : NULL);
    }
    if (flow->ack_at <= now) {
        efe_send_ack(efe, now, flow);
    }
}

static bool function_is_enabled(const struct efe_state *s, uint16_t fn)
{
    return fn == EFE_ADAPTER || (fn < s->config.functions && s->enabled[fn]);
}

void efe_receive_frame(struct efe *efe, uint64_t now, const struct efe_header *header, const uint8_t *frame)
{
    struct efe_state *s = efe_state(efe);
    if (!function_is_enabled(s, header->to_fn)) {
        s->counters.no_function++;
        efe_send_refusal(efe, now, header);
        return;
    }
    struct efe_flow *flow = efe_table_find(s, header->to_fn, header->from_mac, header->from_fn);
    if (header->type == EFE_RESET) {
        receive_reset(efe, now, flow, header);
        return;
    }
    if (flow == NULL) {
        flow = receive_first(efe, now, header);
    }
    if (flow != NULL && receive_is_believed(efe, now, flow, header)) {
        receive_believed(efe, now, flow, header, frame);
    }
    if (flow != NULL) {
        efe_send_refresh(s, flow);
    }
}
