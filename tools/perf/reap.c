/* SPDX-License-Identifier: MIT */
/*
 * Completions of one VI, by polling or by sleeping, with or without a completion queue; see end.h.
 * The fast path is a call of the library and a switch; the clock, the stop flag and the VI's state
 * are looked at every SPIN_ROUNDS turns, or after each slice of sleep.
 */
#include "perf.h"

#include "tool_os.h"
#include "tool_text.h"

/* Turns of a spin loop between two looks at the clock. */
#define SPIN_ROUNDS 16384

static VIP_RETURN done_of(VIP_VI_HANDLE vi, bool receive, struct perf_event *event)
{
    event->queue = receive ? PERF_RECEIVES : PERF_SENDS;
    return receive ? VipRecvDone(vi, &event->desc) : VipSendDone(vi, &event->desc);
}

/* The wanted queue first: under a steady stream of the one the other would never be looked at. */
static inline VIP_RETURN poll_queues(struct perf_end *end, enum perf_queue want, struct perf_event *event)
{
    bool sends_out = end->data_out + end->notes_out > 0;
    VIP_RETURN rc = VIP_NOT_DONE;

    if (want == PERF_RECEIVES || sends_out) {
        rc = done_of(end->vi, want == PERF_RECEIVES, event);
    }
    if (rc == VIP_NOT_DONE && (want == PERF_SENDS || sends_out)) {
        rc = done_of(end->vi, want == PERF_SENDS, event);
    }
    return rc;
}

static inline VIP_RETURN poll_once(struct perf_end *end, enum perf_queue want, struct perf_event *event)
{
    if (end->cq != NULL) {
        VIP_VI_HANDLE vi = NULL;
        VIP_BOOLEAN receive = VIP_FALSE;
        VIP_RETURN rc = VipCQDone(end->cq, &vi, &receive);

        return rc == VIP_SUCCESS ? done_of(vi, receive, event) : rc;
    }
    return poll_queues(end, want, event);
}

/* Before a sleep, which looks at the wanted queue by itself. */
static inline VIP_RETURN look(struct perf_end *end, enum perf_queue want, struct perf_event *event)
{
    if (!end->block || end->cq != NULL) {
        return poll_once(end, want, event);
    }
    return want == PERF_RECEIVES && end->data_out + end->notes_out > 0 ? done_of(end->vi, false, event)
                                                                       : VIP_NOT_DONE;
}

static VIP_RETURN block_once(struct perf_end *end, enum perf_queue want, VIP_ULONG timeout,
                             struct perf_event *event)
{
    VIP_RETURN rc;

    if (end->cq != NULL) {
        VIP_VI_HANDLE vi = NULL;
        VIP_BOOLEAN receive = VIP_FALSE;

        rc = VipCQWait(end->cq, timeout, &vi, &receive);
        return rc == VIP_SUCCESS ? done_of(vi, receive, event) : rc;
    }
    event->queue = want;
    return want == PERF_RECEIVES ? VipRecvWait(end->vi, timeout, &event->desc)
                                 : VipSendWait(end->vi, timeout, &event->desc);
}

/* Count a send back in, or read off what a receive is. */
static VIP_RETURN account(struct perf_end *end, struct perf_event *event)
{
    const VIP_DESCRIPTOR *desc = event->desc;

    if (event->queue == PERF_SENDS) {
        if (desc >= end->notes) {
            end->notes_out--;
        } else {
            end->data_out--;
        }
        return VIP_SUCCESS;
    }
    event->kind = PERF_KIND_DATA;
    event->value = 0;
    if ((desc->CS.Status & VIP_STATUS_IMMEDIATE) != 0) {
        event->kind = (enum perf_kind)(desc->CS.ImmediateData >> 24);
        event->value = desc->CS.ImmediateData & PERF_VALUE_MASK;
    }
    return VIP_SUCCESS;
}

static VIP_RETURN explain(struct perf_end *end, const struct perf_event *event, VIP_RETURN rc)
{
    char text[160];

    if (rc == VIP_INTERRUPTED || (end->quiet && rc != VIP_TIMEOUT)) {
        return rc;
    }
    if (rc == VIP_DESCRIPTOR_ERROR && event->desc != NULL) {
        tool_complain("a %s failed: %s", event->queue == PERF_SENDS ? "send" : "receive",
                      tool_status_text(event->desc->CS.Status, text, sizeof(text)));
    } else if (rc == VIP_TIMEOUT) {
        tool_complain("no progress in %u ms", end->timeout_ms);
    } else {
        tool_complain_rc("waiting for a completion", rc);
    }
    return rc;
}

static bool waited_too_long(const struct perf_end *end, uint64_t *since)
{
    uint64_t now = tool_now_ns();

    if (*since == 0) {
        *since = now;
    }
    return now - *since > (uint64_t)end->timeout_ms * 1000000;
}

/* A poll found nothing: sleep for a slice, or take a turn of the spin loop. */
static VIP_RETURN idle(struct perf_end *end, enum perf_queue want, struct perf_event *event,
                       struct perf_watch *watch)
{
    if (end->block) {
        VIP_ULONG slice = end->timeout_ms < TOOL_SLICE_MS ? end->timeout_ms : TOOL_SLICE_MS;
        VIP_RETURN rc = block_once(end, want, slice, event);

        if (rc != VIP_TIMEOUT && rc != VIP_INTERRUPTED && rc != VIP_NOT_DONE) {
            return rc;
        }
        watch->turns = SPIN_ROUNDS;
    }
    tool_relax();
    if (++watch->turns < SPIN_ROUNDS) {
        return VIP_NOT_DONE;
    }
    watch->turns = 0;
    if (tool_stop) {
        return VIP_INTERRUPTED;
    }
    return waited_too_long(end, &watch->since) ? VIP_TIMEOUT : VIP_NOT_DONE;
}

/* As perf_next(), without a look at the held events. */
static VIP_RETURN next_completion(struct perf_end *end, enum perf_queue want, struct perf_event *event)
{
    struct perf_watch watch = {0, 0};
    VIP_RETURN rc = look(end, want, event);

    while (rc == VIP_NOT_DONE) {
        rc = idle(end, want, event, &watch);
        if (rc == VIP_NOT_DONE) {
            rc = look(end, want, event);
        }
    }
    return rc == VIP_SUCCESS ? account(end, event) : explain(end, event, rc);
}

VIP_RETURN perf_next(struct perf_end *end, enum perf_queue want, struct perf_event *event)
{
    if (end->held_count > 0) {
        *event = end->held[end->held_first];
        end->held_first = (end->held_first + 1) % end->held_room;
        end->held_count--;
        return VIP_SUCCESS;
    }
    return next_completion(end, want, event);
}

static void keep(struct perf_end *end, const struct perf_event *event)
{
    end->held[(end->held_first + end->held_count) % end->held_room] = *event;
    end->held_count++;
}

VIP_RETURN perf_reap_one(struct perf_end *end, bool keep_sends)
{
    struct perf_event event = {PERF_SENDS, NULL, PERF_KIND_DATA, 0};
    VIP_RETURN rc = next_completion(end, PERF_SENDS, &event);

    if (rc == VIP_SUCCESS && (keep_sends || event.queue == PERF_RECEIVES)) {
        keep(end, &event);
    }
    return rc;
}

VIP_RETURN perf_poll_end(struct perf_end *end)
{
    struct perf_event event = {PERF_RECEIVES, NULL, PERF_KIND_DATA, 0};
    VIP_RETURN rc = poll_once(end, PERF_RECEIVES, &event);

    if (rc == VIP_NOT_DONE) {
        return VIP_SUCCESS;
    }
    rc = rc == VIP_SUCCESS ? account(end, &event) : explain(end, &event, rc);
    if (rc == VIP_SUCCESS && event.queue == PERF_RECEIVES) {
        keep(end, &event);
    }
    return rc;
}

VIP_RETURN perf_reap_sends(struct perf_end *end, uint32_t left)
{
    VIP_RETURN rc = VIP_SUCCESS;

    while (rc == VIP_SUCCESS && end->data_out > left) {
        rc = perf_reap_one(end, false);
    }
    return rc;
}

VIP_RETURN perf_reap_done(struct perf_end *end)
{
    struct perf_event event = {PERF_SENDS, NULL, PERF_KIND_DATA, 0};
    VIP_RETURN rc = end->cq == NULL && end->data_out > 0 ? done_of(end->vi, false, &event) : VIP_NOT_DONE;

    if (rc == VIP_NOT_DONE) {
        return VIP_SUCCESS;
    }
    return rc == VIP_SUCCESS ? account(end, &event) : explain(end, &event, rc);
}

VIP_RETURN perf_drain(struct perf_end *end)
{
    VIP_RETURN rc = VIP_SUCCESS;

    while (rc == VIP_SUCCESS && end->data_out + end->notes_out > 0) {
        rc = perf_reap_one(end, false);
    }
    return rc;
}

VIP_RETURN perf_next_receive(struct perf_end *end, struct perf_event *event)
{
    VIP_RETURN rc;

    do {
        rc = perf_next(end, PERF_RECEIVES, event);
    } while (rc == VIP_SUCCESS && event->queue == PERF_SENDS);
    return rc;
}

VIP_RETURN perf_watch(struct perf_end *end, struct perf_watch *watch)
{
    VIP_VI_STATE state;

    tool_relax();
    if (++watch->turns < SPIN_ROUNDS) {
        return VIP_SUCCESS;
    }
    watch->turns = 0;
    if (tool_stop) {
        return VIP_INTERRUPTED;
    }
    if (VipQueryVi(end->vi, &state, NULL, NULL, NULL) != VIP_SUCCESS || state != VIP_STATE_CONNECTED) {
        return explain(end, NULL, VIP_INVALID_STATE);
    }
    return waited_too_long(end, &watch->since) ? explain(end, NULL, VIP_TIMEOUT) : VIP_SUCCESS;
}
