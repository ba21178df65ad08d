/* SPDX-License-Identifier: MIT */
/*
 * How queue pairs end. On the way to ERROR all work under way is dropped at once, because no DMA
 * outlives the call that began it. Only the Terminate, and DRAINED after it, may have to wait for
 * room in the flow.
 */
#include "devices/rnic/card/qp.h"

#include "devices/rnic/card/aotf.h"
#include "devices/rnic/card/cq.h"
#include "devices/rnic/card/dma.h"
#include "devices/rnic/card/doorbell.h"
#include "devices/rnic/card/error.h"
#include "devices/rnic/card/event.h"
#include "devices/rnic/card/flow.h"
#include "devices/rnic/card/list.h"
#include "devices/rnic/card/numbers.h"
#include "devices/rnic/card/raw.h"
#include "devices/rnic/card/request.h"
#include "devices/rnic/card/schedule.h"
#include "devices/rnic/card/window.h"

static bool is_ahead(const struct rnic_ring *ring, uint32_t producer)
{
    return ring->log2 != 0 && producer - ring->next > 1u << ring->log2;
}

void rnic_qp_look(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    uint32_t sq, rq;
    rnic_doorbell_look_qp(card, qp, &sq, &rq);
    bool changed = sq != row->sq.producer || rq != row->rq.producer;
    row->sq.producer = sq;
    row->rq.producer = rq;
    if (row->state == RNIC_QP_STATE_ERROR || !changed) {
        return;
    }
    if (is_ahead(&row->sq, sq) || is_ahead(&row->rq, rq)) {
        rnic_error_log(card, row->fn, RNIC_ERROR_RING_INDEX, qp, 0);
        rnic_qp_fail(card, qp, RNIC_ERROR_RING_INDEX,
                     &(struct vipl_rdmap_terminate){.reason = VIPL_TERM_RDMAP_LOCAL_CATASTROPHIC});
    } else if (rnic_qp_sends(row)) {
        rnic_schedule(card, qp);
    }
}

/* --- flows --- */

void rnic_qp_attach(struct rnic_card *card, uint32_t qp, uint32_t flow)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    row->flow = flow + 1;
    rnic_flow_hold(card, flow);
    rnic_flow(card, flow)->fn = row->fn;
    rnic_list_append(card, &rnic_flow(card, flow)->users, RNIC_LIST_FLOW, qp);
}

void rnic_qp_detach(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    if (row->level == RNIC_LEVEL_RAW) {
        rnic_raw_close(card, qp);
        return;
    }
    if (row->flow == 0) {
        rnic_list_remove(card, &rnic_state(card)->lost, RNIC_LIST_RUN, qp);
        return;
    }
    struct rnic_flow *flow = rnic_flow(card, row->flow - 1);
    rnic_list_remove(card, &flow->run, RNIC_LIST_RUN, qp);
    rnic_list_remove(card, &flow->users, RNIC_LIST_FLOW, qp);
    rnic_flow_release(card, row->flow - 1);
    row->flow = 0;
}

/* --- to ERROR --- */

/* Drops all work that is under way. */
static void drop_work(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    row->state = RNIC_QP_STATE_ERROR;
    row->generation++;
    row->has_receive = false;
    row->arriving = RNIC_ARRIVING_NOTHING;
    row->ack_due = false;
    row->reads_in = 0;
    row->terminate = 0;
    rnic_requests_drop(card, qp);
    rnic_aotf_drop(card, qp);
    rnic_list_remove(card, &rnic_state(card)->closing, RNIC_LIST_CLOSING, qp);
}

static void complete_drained(struct rnic_card *card, uint32_t qp, uint32_t cq)
{
    rnic_cq_complete(card, cq, &(struct rnic_completion){.qp = qp, .opcode = RNIC_WORK_DRAINED});
}

void rnic_qp_drain(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    row->terminate = 0;
    rnic_qp_detach(card, qp);
    row->drained = true;
    complete_drained(card, qp, row->send_cq);
    if (row->recv_cq != row->send_cq) {
        complete_drained(card, qp, row->recv_cq);
    }
    if (row->error != RNIC_ERROR_NONE) {
        rnic_event_qp(card, qp, row->error);
    }
}

void rnic_qp_fail(struct rnic_card *card, uint32_t qp, uint16_t error,
                  const struct vipl_rdmap_terminate *terminate)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    if (row->state == RNIC_QP_STATE_ERROR) {
        return;
    }
    bool acknowledges = row->ack_due;
    bool peer = rnic_qp_receives(row) && row->flow != 0;
    drop_work(card, qp);
    row->error = error;
    if (peer && terminate != NULL) {
        row->ack_due = acknowledges; /* what was received before is told before */
        row->terminate = (uint8_t)vipl_rdmap_terminate_write(row->in.bytes, terminate);
        rnic_schedule(card, qp);
    } else {
        rnic_qp_drain(card, qp);
    }
}

void rnic_qp_stop(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    if (!row->drained) {
        drop_work(card, qp);
        rnic_qp_drain(card, qp);
    }
}

/* --- CLOSING --- */

void rnic_qp_check_closing(struct rnic_card *card, uint32_t qp)
{
    const struct rnic_qp *row = rnic_qp(card, qp);
    /* to the peer, for what came before, or stores, or a raw frame to the wire */
    bool owes = row->ack_due || row->reads_in != 0 || row->stores != 0 || rnic_raw_owes(card, qp);
    if (row->state == RNIC_QP_STATE_CLOSING && row->requests == 0 && row->sq.next == row->closing_at &&
        !owes) {
        rnic_qp_stop(card, qp);
    }
}

uint64_t rnic_qp_deadline(const struct rnic_card *card)
{
    const struct rnic_state *state = rnic_state(card);
    return state->closing.first == 0 ? UINT64_MAX : rnic_qp(card, state->closing.first - 1)->closing;
}

void rnic_qp_advance(struct rnic_card *card)
{
    struct rnic_state *state = rnic_state(card);
    for (unsigned n = 0; n < RNIC_BUDGET && rnic_qp_deadline(card) <= state->now; n++) {
        rnic_qp_stop(card, state->closing.first - 1);
    }
}

/* --- its row --- */

void rnic_qp_free(struct rnic_card *card, uint32_t qp)
{
    struct rnic_state *state = rnic_state(card);
    struct rnic_qp *row = rnic_qp(card, qp);
    struct rnic_fn *f = rnic_fn(card, row->fn);
    rnic_requests_drop(card, qp);
    rnic_qp_detach(card, qp);
    rnic_list_remove(card, &state->closing, RNIC_LIST_CLOSING, qp);
    rnic_list_remove(card, &f->events, RNIC_LIST_EVENT, qp);
    rnic_cq(card, row->send_cq)->users--;
    rnic_cq(card, row->recv_cq)->users--;
    rnic_doorbell_clear_qp(card, row->fn, qp);
    rnic_window_release(card, qp);
    rnic_aotf_release(card, qp);
    f->used_qps--;
    row->generation++;
    rnic_numbers_give(card, &state->qps, qp);
}
