/* SPDX-License-Identifier: MIT */
/*
 * RDMA Reads. Answers are made in the queue pair's turns, a frame at a time, from memory as it is
 * then; access is checked when the request comes and again for each frame. Reads of this side are
 * answered in the order of their requests.
 */
#include "devices/rnic/card/reads.h"

#include "devices/rnic/card/cost.h"
#include "devices/rnic/card/flow.h"
#include "devices/rnic/card/mr.h"
#include "devices/rnic/card/qp.h"
#include "devices/rnic/card/request.h"
#include "devices/rnic/card/terminate.h"
#include "devices/rnic/card/work.h"

/* --- reads of the peer --- */

void rnic_reads_add(struct rnic_card *card, uint32_t qp, const struct vipl_rdmap_read *read)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    *rnic_inbound(card, qp, row->first_in + row->reads_in) =
        (struct rnic_inbound){.address = read->source_offset,
                              .sink_offset = read->sink_offset,
                              .stag = read->source_stag,
                              .bytes = read->bytes,
                              .sink_stag = read->sink_stag};
    row->reads_in++;
    rnic_schedule(card, qp);
}

/* The memory is not there any more, or the bus refuses it: the reader is told, by the header of an
 * answer. */
static enum rnic_turn refuse_read(struct rnic_card *card, uint32_t qp, enum rnic_refusal refusal)
{
    const struct rnic_qp *row = rnic_qp(card, qp);
    bool is_bus = refusal == RNIC_ALLOWED;
    struct vipl_ddp ddp = {.last = true,
                           .op = VIPL_RDMAP_READ_REQUEST,
                           .queue = VIPL_DDP_QUEUE_READ_REQUEST,
                           .msn = row->got_read_msn - row->reads_in + 1u};
    uint16_t reason = is_bus ? rnic_terminate_bus(card, row->fn) : rnic_terminate_refusal(refusal, true);
    uint16_t error = is_bus ? RNIC_ERROR_DMA : RNIC_ERROR_READ_DENIED;
    struct vipl_rdmap_terminate terminate =
        rnic_terminate_for(reason, &ddp, VIPL_DDP_UNTAGGED_BYTES + VIPL_RDMAP_READ_REQUEST_BYTES);
    rnic_flow_cancel(card, row->flow - 1);
    rnic_qp_fail(card, qp, error, &terminate);
    return RNIC_TURN_SENT;
}

static void next_answer(struct rnic_qp *row)
{
    row->first_in = (uint8_t)((row->first_in + 1) % RNIC_READ_SLOTS);
    row->reads_in--;
    row->read_moved = 0;
    row->responses++;
}

/* Frames end at multiples of 8 in the reader's memory, as far as the sink's offset shows it. */
static uint32_t share(const struct rnic_card *card, const struct rnic_qp *row,
                      const struct rnic_inbound *read)
{
    uint32_t room = efe_payload_max(rnic_state(card)->config.mtu) - VIPL_DDP_TAGGED_BYTES;
    uint32_t left = read->bytes - row->read_moved;
    return left <= room ? left : room - (uint32_t)((read->sink_offset + row->read_moved + room) % 8);
}

static void commit_response(struct rnic_card *card, uint32_t qp, uint32_t bytes, uint32_t left)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    struct efe_send send = {
        .type = EFE_DATA,
        .flags = (uint8_t)((row->read_moved == 0 ? EFE_FIRST : 0) | (bytes == left ? EFE_LAST : 0)),
        .to_qp = row->peer_qp,
        .from_qp = (uint16_t)qp,
        .left = left,
        .message = row->responses};
    rnic_flow_commit(card, row->fn, row->flow - 1, &send, VIPL_DDP_TAGGED_BYTES + bytes, 0);
    row->read_moved += bytes;
    if (bytes == left) {
        next_answer(row);
    }
}

enum rnic_turn rnic_reads_turn(struct rnic_card *card, uint32_t qp)
{
    const struct rnic_qp *row = rnic_qp(card, qp);
    if (row->reads_in == 0) {
        return RNIC_TURN_IDLE;
    }
    const struct rnic_inbound *read = rnic_inbound(card, qp, row->first_in);
    uint8_t *payload = rnic_flow_reserve(card, row->flow - 1);
    if (payload == NULL) {
        return RNIC_TURN_BLOCKED;
    }
    uint32_t bytes = share(card, row, read);
    uint32_t left = read->bytes - row->read_moved;
    struct rnic_segment range = {read->address + row->read_moved, left, read->stag};
    enum rnic_refusal refusal = rnic_mr_check(card, qp, RNIC_ACCESS_REMOTE_READ, &range);
    range.length = bytes;
    if (refusal != RNIC_ALLOWED || !rnic_mr_read(card, qp, &range, payload + VIPL_DDP_TAGGED_BYTES)) {
        return refuse_read(card, qp, refusal);
    }
    struct vipl_ddp ddp = {.tagged = true,
                           .last = bytes == left,
                           .op = VIPL_RDMAP_READ_RESPONSE,
                           .stag = read->sink_stag,
                           .offset = read->sink_offset + row->read_moved};
    vipl_ddp_write(payload, &ddp);
    rnic_cost_frame(card, row->fn, RNIC_ENGINE_SEND, row->read_moved == 0);
    commit_response(card, qp, bytes, left);
    return RNIC_TURN_SENT;
}

/* --- reads of this side --- */

static void complete(struct rnic_card *card, uint32_t qp, struct rnic_request *request)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    row->first_out = (uint8_t)((row->first_out + 1) % RNIC_READ_SLOTS);
    row->reads_out--;
    request->wait = RNIC_WAIT_NOTHING;
    rnic_complete_requests(card, qp);
}

/* The read fails here: what its memory or the bus refuses. */
static void fail_own_read(struct rnic_card *card, uint32_t qp, struct rnic_request *request,
                          enum rnic_outcome outcome)
{
    request->status = RNIC_STATUS_LOCAL_PROTECTION;
    rnic_complete_before(card, qp, request);
    rnic_complete_alone(card, qp, request);
    rnic_qp_fail(card, qp, outcome == RNIC_WORK_BUS ? RNIC_ERROR_DMA : RNIC_ERROR_SEND_PROTECTION,
                 &(struct vipl_rdmap_terminate){.reason = VIPL_TERM_RDMAP_LOCAL_CATASTROPHIC});
}

bool rnic_reads_answered(struct rnic_card *card, uint32_t qp, const struct vipl_ddp *ddp,
                         const uint8_t *payload, uint32_t bytes, uint32_t left)
{
    const struct rnic_qp *row = rnic_qp(card, qp);
    if ((ddp->stag & 0xFFFF) != row->generation) {
        return true;
    }
    if (row->reads_out == 0 || ddp->stag >> 16 != row->first_out + 1u) {
        return false;
    }
    struct rnic_request *request = rnic_request(card, row->fn, row->out[row->first_out] - 1u);
    if (ddp->offset != request->moved || left != request->work.length - request->moved || bytes > left ||
        ddp->last != (bytes == left)) {
        return false;
    }
    enum rnic_outcome outcome = rnic_work_scatter(card, qp, &request->work, &request->at, payload, bytes);
    if (outcome != RNIC_WORK_GOOD) {
        fail_own_read(card, qp, request, outcome);
        return true;
    }
    request->moved += bytes;
    if (ddp->last) {
        complete(card, qp, request);
    }
    return true;
}
