/* SPDX-License-Identifier: MIT */
/*
 * The bandwidth and rate loops: `depth` messages in flight, one way or both ways at once.
 *
 * Flow control. A measured message costs a credit. For sends the receiver keeps twice the depth of
 * receives posted and returns credits for each `depth` messages it has taken (of several VIs:
 * without a gap), so a reliable VI never meets an empty receive queue. RDMA Reads need no credit.
 * RDMA Writes need none either, except that with verification the writer marks each `depth`
 * messages and waits until they have been checked. The receiver of the last message says FIN; the
 * writer's last mark asks for it. A run's time ends when FIN is there and every send is reaped; a
 * sample is the time of `depth` completed messages.
 */
#include "perf.h"

#include "tool_os.h"
#include "tool_pattern.h"
#include "tool_text.h"

struct flow {
    struct perf_end *end;
    const struct perf_run *run;
    struct perf_tally *tally;
    bool client;
    uint32_t depth;
    /* outgoing */
    uint64_t to_send;
    uint64_t posted;
    uint64_t completed;
    uint64_t credits;
    uint64_t unmarked; /* RDMA Writes posted since the last mark */
    bool last_marked;
    bool fin_seen;   /* or not to come */
    uint64_t window; /* messages in a sample */
    uint64_t window_start;
    uint64_t window_end; /* value of `completed` that ends the sample */
    /* incoming */
    uint64_t to_receive;
    uint64_t received;
    uint32_t uncredited;
    bool fin_sent; /* or not to be sent */
    bool ended;    /* the peer says it has finished the run */
};

/* ---- outgoing -------------------------------------------------------------------------------- */

static uint64_t initial_credits(const struct flow *flow)
{
    switch (flow->run->op) {
    case PERF_SEND:
        return 2 * (uint64_t)flow->depth;
    case PERF_WRITE:
        return flow->run->verify ? flow->depth : flow->to_send;
    default:
        return flow->to_send;
    }
}

/* Fill a message to be sent or written; nothing to do for a read. */
static void fill(const struct flow *flow)
{
    if (flow->run->verify && flow->run->op != PERF_READ) {
        tool_pattern_fill(perf_next_local(flow->end), flow->run->size,
                          perf_seed(flow->client, flow->posted + 1));
    }
}

static VIP_RETURN post_data(struct flow *flow)
{
    VIP_RETURN rc = VIP_SUCCESS;

    while (rc == VIP_SUCCESS && flow->posted < flow->to_send && flow->credits > 0 &&
           flow->end->data_out < flow->depth) {
        fill(flow);
        rc = perf_post(flow->end);
        flow->posted++;
        flow->credits--;
        flow->unmarked++;
    }
    return rc;
}

/* RDMA Writes leave no trace at the receiver: tell it, when a window or everything is written. */
static VIP_RETURN mark_writes(struct flow *flow)
{
    bool last = flow->posted == flow->to_send;
    uint32_t value = flow->run->verify ? (uint32_t)flow->unmarked : 0;

    if (flow->run->op != PERF_WRITE || flow->unmarked == 0 || flow->last_marked ||
        (!last && flow->credits > 0)) {
        return VIP_SUCCESS;
    }
    flow->unmarked = 0;
    flow->last_marked = last;
    return perf_note(flow->end, PERF_KIND_MARK, value);
}

/* A fetched message: right? Then spoil it, so that the next read into it has to fetch again. */
static void check_read(struct flow *flow, VIP_DESCRIPTOR *desc)
{
    unsigned char *local = (unsigned char *)(uintptr_t)desc->DS[1].Local.Data.AddressBits;
    uint32_t turn = (uint32_t)(desc - flow->end->sends);
    uint32_t slot = turn % flow->end->peer.slots;
    uint32_t size = flow->run->size;

    flow->tally->wrong += tool_pattern_check(local, size, perf_slot_seed(slot)) != TOOL_ALL_RIGHT;
    tool_pattern_fill(local, size, 0);
}

static void count_completed(struct flow *flow, VIP_DESCRIPTOR *desc)
{
    if (flow->run->verify && flow->run->op == PERF_READ) {
        check_read(flow, desc);
    }
    if (++flow->completed == flow->window_end) {
        uint64_t now = tool_now_ns();

        perf_hist_add(flow->tally->hist, now - flow->window_start);
        flow->window_start = now;
        flow->window_end += flow->window;
    }
}

/* ---- incoming -------------------------------------------------------------------------------- */

static VIP_RETURN send_fin(struct flow *flow)
{
    if (flow->fin_sent || flow->received < flow->to_receive) {
        return VIP_SUCCESS;
    }
    flow->fin_sent = true;
    return perf_note(flow->end, PERF_KIND_FIN, 0);
}

static VIP_RETURN take_data(struct flow *flow, VIP_DESCRIPTOR *desc)
{
    VIP_RETURN rc;

    flow->received++;
    if (flow->run->verify) {
        uint32_t seed = perf_seed(!flow->client, flow->received);
        bool right = desc->CS.Length == flow->run->size &&
                     tool_pattern_check(perf_received(desc), flow->run->size, seed) == TOOL_ALL_RIGHT;

        flow->tally->wrong += !right;
    }
    flow->uncredited += perf_count_received(flow->end, desc);
    rc = perf_repost(flow->end, desc);
    while (rc == VIP_SUCCESS && flow->uncredited >= flow->depth) {
        flow->uncredited -= flow->depth;
        rc = perf_note(flow->end, PERF_KIND_CREDIT, flow->depth);
    }
    return rc == VIP_SUCCESS ? send_fin(flow) : rc;
}

/* RDMA Writes up to here have been written: all, or a window of them, which is checked. */
static VIP_RETURN take_mark(struct flow *flow, uint32_t count)
{
    VIP_RETURN rc = VIP_SUCCESS;

    if (count == 0) {
        flow->received = flow->to_receive;
    } else if (count > flow->depth || !flow->run->verify) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = (uint32_t)(flow->received % flow->depth) % flow->end->window_slots;
        uint32_t seed = perf_seed(!flow->client, ++flow->received);

        flow->tally->wrong +=
            tool_pattern_check(perf_window_slot(flow->end, slot), flow->run->size, seed) != TOOL_ALL_RIGHT;
    }
    if (count > 0) {
        rc = perf_note(flow->end, PERF_KIND_CREDIT, count);
    }
    return rc == VIP_SUCCESS ? send_fin(flow) : rc;
}

static VIP_RETURN take_note(struct flow *flow, const struct perf_event *event)
{
    VIP_RETURN rc = perf_repost(flow->end, event->desc);

    if (rc != VIP_SUCCESS) {
        return rc;
    }
    switch (event->kind) {
    case PERF_KIND_CREDIT:
        flow->credits += event->value;
        return VIP_SUCCESS;
    case PERF_KIND_MARK:
        return take_mark(flow, event->value);
    case PERF_KIND_FIN:
        flow->fin_seen = true;
        return VIP_SUCCESS;
    case PERF_KIND_END:
        flow->ended = true;
        return VIP_SUCCESS;
    default:
        tool_complain("message of kind %d out of turn", (int)event->kind);
        return VIP_ERROR_NOT_SUPPORTED;
    }
}

static VIP_RETURN take(struct flow *flow, struct perf_event *event)
{
    if (event->queue == PERF_SENDS) {
        if (event->desc < flow->end->notes) {
            count_completed(flow, event->desc);
        }
        return VIP_SUCCESS;
    }
    return event->kind == PERF_KIND_DATA ? take_data(flow, event->desc) : take_note(flow, event);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static bool finished(const struct flow *flow)
{
    return flow->completed == flow->to_send && flow->fin_seen && flow->fin_sent;
}

/* Where to sleep when there is nothing to do: on sends only while they hold the next post back. */
static enum perf_queue waits_for(const struct flow *flow)
{
    bool window_full = flow->end->data_out == flow->depth;
    bool all_posted = flow->posted == flow->to_send && flow->completed < flow->to_send;

    return window_full || all_posted ? PERF_SENDS : PERF_RECEIVES;
}

static VIP_RETURN stream(struct flow *flow)
{
    VIP_RETURN rc = VIP_SUCCESS;

    while (rc == VIP_SUCCESS && !finished(flow)) {
        struct perf_event event;

        rc = post_data(flow);
        if (rc == VIP_SUCCESS) {
            rc = mark_writes(flow);
        }
        if (rc == VIP_SUCCESS) {
            rc = perf_next(flow->end, waits_for(flow), &event);
        }
        if (rc == VIP_SUCCESS) {
            rc = take(flow, &event);
        }
    }
    return rc == VIP_SUCCESS ? perf_drain(flow->end) : rc;
}

VIP_RETURN perf_stream(struct perf_end *end, const struct perf_run *run, bool client,
                       struct perf_tally *tally, bool *peer_ended)
{
    bool both = run->test == PERF_BIBW;
    bool passive = run->op == PERF_READ;
    struct flow flow = {.end = end, .run = run, .tally = tally, .client = client, .depth = end->shape.depth};
    uint64_t start = tool_now_ns();
    VIP_RETURN rc;

    flow.to_send = client || both ? run->count : 0;
    flow.to_receive = (!client || both) && !passive ? run->count : 0;
    flow.fin_seen = flow.to_send == 0 || passive;
    flow.fin_sent = flow.to_receive == 0;
    flow.credits = initial_credits(&flow);
    flow.window_start = start;
    flow.window = run->count < flow.depth ? run->count : flow.depth;
    flow.window_end = flow.window;
    rc = stream(&flow);
    tally->elapsed_ns = tool_now_ns() - start;
    tally->window = flow.window;
    *peer_ended = flow.ended;
    return rc;
}
