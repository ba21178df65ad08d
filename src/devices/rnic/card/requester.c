/* SPDX-License-Identifier: MIT */
/*
 * From an entry of a send queue to its frames. Everything about the entry is checked before its
 * first frame; its memory is looked up again for each frame, because a tag may have ended in
 * between.
 */
#include "devices/rnic/card/requester.h"

#include "devices/rnic/card/cost.h"
#include "devices/rnic/card/flow.h"
#include "devices/rnic/card/qp.h"
#include "devices/rnic/card/request.h"
#include "devices/rnic/card/window.h"
#include "devices/rnic/card/work.h"
#include "iwarp/bytes.h"
#include "iwarp/rdmap.h"

/* WHOLE: frames of tagged messages end at multiples of that number of bytes. */
enum { MESSAGE_ACK_BYTES = 8, WHOLE = 8 };

/* --- beginning --- */

/* The entry ends so, when those before it have completed. On a reliable queue pair no other is
 * begun. */
static enum rnic_turn fail_request(struct rnic_card *card, struct rnic_request *request,
                                   enum rnic_outcome outcome)
{
    struct rnic_qp *row = rnic_qp(card, request->qp);
    bool goes_on = row->level == RNIC_LEVEL_UNRELIABLE && outcome != RNIC_WORK_BUS && !request->begun;
    request->status = outcome == RNIC_WORK_BAD ? RNIC_STATUS_LOCAL_FORMAT : RNIC_STATUS_LOCAL_PROTECTION;
    request->error = outcome == RNIC_WORK_BAD   ? RNIC_ERROR_SEND_FORMAT
                     : outcome == RNIC_WORK_BUS ? RNIC_ERROR_DMA
                                                : RNIC_ERROR_SEND_PROTECTION;
    request->error = goes_on ? (uint16_t)RNIC_ERROR_NONE : request->error;
    request->wait = RNIC_WAIT_NOTHING;
    row->halted = !goes_on;
    rnic_complete_requests(card, request->qp);
    return RNIC_TURN_SENT;
}

static bool is_valid(const struct rnic_qp *row, const struct rnic_work *work)
{
    bool reads = work->opcode == RNIC_WORK_READ;
    uint8_t flags = reads ? RNIC_WORK_FLAG_FENCE | RNIC_WORK_FLAG_LIST
                          : RNIC_WORK_FLAG_FENCE | RNIC_WORK_FLAG_LIST | RNIC_WORK_FLAG_IMMEDIATE;
    if (work->opcode < RNIC_WORK_SEND || work->opcode > RNIC_WORK_READ || (work->flags & ~flags) != 0) {
        return false;
    }
    return !reads || (row->ord > 0 && row->level != RNIC_LEVEL_UNRELIABLE);
}

/* What is to be known of the entry before its first frame. */
static enum rnic_outcome examine(struct rnic_card *card, uint32_t qp, const struct rnic_work *work)
{
    static const struct rnic_cursor start = {0};
    if (!is_valid(rnic_qp(card, qp), work)) {
        return RNIC_WORK_BAD;
    }
    enum rnic_outcome outcome = rnic_work_measure(card, qp, work);
    enum rnic_access access =
        work->opcode == RNIC_WORK_READ ? RNIC_ACCESS_LOCAL_WRITE : RNIC_ACCESS_LOCAL_READ;
    return outcome == RNIC_WORK_GOOD ? rnic_work_check(card, qp, work, &start, work->length, access)
                                     : outcome;
}

/* Whether there is an entry that may be begun. */
static bool has_work(const struct rnic_qp *row)
{
    uint32_t end = row->state == RNIC_QP_STATE_CLOSING ? row->closing_at : row->sq.producer;
    return rnic_qp_sends(row) && !row->halted && row->sq.log2 != 0 && row->sq.next != end;
}

/* Copies the next entry. NULL: there is none, or no room for it; or it has failed: *turn says
 * which. */
static struct rnic_request *begin_request(struct rnic_card *card, uint32_t qp, enum rnic_turn *turn)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    struct rnic_request *request = has_work(row) ? rnic_request_take(card, qp) : NULL;
    *turn = RNIC_TURN_IDLE;
    if (request == NULL) {
        return NULL;
    }
    request->window = rnic_window_fetch(card, qp, &request->work);
    enum rnic_outcome outcome =
        request->window ? RNIC_WORK_GOOD : rnic_work_fetch(card, qp, &row->sq, &request->work);
    if (outcome != RNIC_WORK_GOOD) {
        rnic_qp_fail(card, qp, RNIC_ERROR_RING_DMA,
                     &(struct vipl_rdmap_terminate){.reason = VIPL_TERM_RDMAP_LOCAL_CATASTROPHIC});
        return NULL;
    }
    outcome = examine(card, qp, &request->work);
    if (outcome != RNIC_WORK_GOOD) {
        *turn = fail_request(card, request, outcome);
        return NULL;
    }
    return request;
}

/* A fence, or want of a slot, holds an entry back. */
static bool must_wait(const struct rnic_qp *row, const struct rnic_request *request)
{
    if (request->begun || row->reads_out == 0) {
        return false;
    }
    return (request->work.flags & RNIC_WORK_FLAG_FENCE) != 0 ||
           (request->work.opcode == RNIC_WORK_READ && row->reads_out >= row->ord);
}

/* --- frames --- */

/* What the entry waits for when its last frame has been made. */
static uint8_t wait_of(const struct rnic_qp *row, const struct rnic_work *work)
{
    if (work->opcode == RNIC_WORK_READ) {
        return RNIC_WAIT_DATA;
    }
    if (row->level == RNIC_LEVEL_UNRELIABLE) {
        return RNIC_WAIT_NOTHING;
    }
    return row->level == RNIC_LEVEL_DELIVERY && work->opcode == RNIC_WORK_SEND ? RNIC_WAIT_FRAME_ACK
                                                                               : RNIC_WAIT_MESSAGE_ACK;
}

static void commit_frame(struct rnic_card *card, struct rnic_request *request, uint32_t bytes, uint32_t left,
                         bool last)
{
    struct rnic_qp *row = rnic_qp(card, request->qp);
    if (!request->begun) { /* not before: stores into the AOTF space may have passed the entry */
        request->message = row->message++;
    }
    struct efe_send send = {.type = EFE_DATA,
                            .flags = (uint8_t)((request->begun ? 0 : EFE_FIRST) | (last ? EFE_LAST : 0)),
                            .to_qp = row->peer_qp,
                            .from_qp = (uint16_t)request->qp,
                            .left = left,
                            .message = request->message};
    uint64_t tag = 0;
    if (last && wait_of(row, &request->work) == RNIC_WAIT_FRAME_ACK) {
        tag = rnic_request_tag(card, request);
        send.flags |= row->sq.next == row->sq.producer ? EFE_ACK_NOW : 0;
    }
    rnic_flow_commit(card, row->fn, row->flow - 1, &send, bytes, tag);
    request->begun = true;
    if (last) {
        request->wait = wait_of(row, &request->work);
        rnic_complete_requests(card, request->qp);
    }
}

/* How many bytes of the message the next frame has: as many as fit, ending at a multiple of 8 in
 * the target. */
static uint32_t share(const struct rnic_card *card, const struct rnic_request *request, uint32_t header)
{
    const struct rnic_work *work = &request->work;
    uint32_t room = efe_payload_max(rnic_state(card)->config.mtu) - header;
    uint32_t left = work->length - request->moved;
    uint64_t target =
        work->opcode == RNIC_WORK_WRITE ? work->remote_address + request->moved : request->moved;
    return left <= room ? left : room - (uint32_t)((target + room) % WHOLE);
}

static struct vipl_ddp data_header(struct rnic_qp *row, const struct rnic_request *request)
{
    const struct rnic_work *work = &request->work;
    bool promises = (work->flags & RNIC_WORK_FLAG_IMMEDIATE) != 0;
    if (work->opcode == RNIC_WORK_WRITE) {
        return (struct vipl_ddp){.tagged = true,
                                 .op = VIPL_RDMAP_WRITE,
                                 .stag = work->remote_stag,
                                 .offset = work->remote_address + request->moved};
    }
    return (struct vipl_ddp){.op = promises ? VIPL_RDMAP_SEND_SE : VIPL_RDMAP_SEND,
                             .queue = VIPL_DDP_QUEUE_SEND,
                             .msn = row->send_msn + 1,
                             .mo = request->moved};
}

/* The payload of a frame. An entry of the window has it there, if the frame is the whole message
 * and the driver has not stored a later entry there meanwhile. */
static enum rnic_outcome copy_payload(struct rnic_card *card, struct rnic_request *request, uint8_t *out,
                                      uint32_t bytes)
{
    const struct rnic_work *work = &request->work;
    if (request->window && bytes == work->length) {
        enum rnic_outcome outcome =
            rnic_work_check(card, request->qp, work, &request->at, bytes, RNIC_ACCESS_LOCAL_READ);
        if (outcome != RNIC_WORK_GOOD || rnic_window_payload(card, request->qp, work, out)) {
            return outcome;
        }
    }
    return rnic_work_gather(card, request->qp, work, &request->at, out, bytes);
}

/* A frame of a Send's or an RDMA Write's data. */
static enum rnic_turn send_data(struct rnic_card *card, struct rnic_request *request, uint8_t *payload)
{
    struct rnic_qp *row = rnic_qp(card, request->qp);
    const struct rnic_work *work = &request->work;
    struct vipl_ddp ddp = data_header(row, request);
    uint32_t header = ddp.tagged ? VIPL_DDP_TAGGED_BYTES : VIPL_DDP_UNTAGGED_BYTES;
    uint32_t bytes = share(card, request, header);
    uint32_t left = work->length - request->moved;
    ddp.last = bytes == left;
    vipl_ddp_write(payload, &ddp);
    enum rnic_outcome outcome = copy_payload(card, request, payload + header, bytes);
    if (outcome != RNIC_WORK_GOOD) {
        rnic_flow_cancel(card, row->flow - 1);
        return fail_request(card, request, outcome);
    }
    request->moved += bytes;
    request->immediate = ddp.last && (work->flags & RNIC_WORK_FLAG_IMMEDIATE) != 0;
    if (!ddp.tagged) {
        request->msn = ddp.msn;
        row->send_msn += ddp.last;
    }
    commit_frame(card, request, header + bytes, left, ddp.last && !request->immediate);
    return RNIC_TURN_SENT;
}

static enum rnic_turn send_immediate(struct rnic_card *card, struct rnic_request *request, uint8_t *payload)
{
    struct rnic_qp *row = rnic_qp(card, request->qp);
    struct vipl_ddp ddp = {
        .last = true, .op = VIPL_RDMAP_IMMEDIATE, .queue = VIPL_DDP_QUEUE_SEND, .msn = ++row->send_msn};
    vipl_ddp_write(payload, &ddp);
    request->immediate_msn = ddp.msn;
    vipl_rdmap_immediate_write(payload + VIPL_DDP_UNTAGGED_BYTES, request->work.immediate);
    commit_frame(card, request, VIPL_DDP_UNTAGGED_BYTES + VIPL_RDMAP_IMMEDIATE_BYTES, 0, true);
    return RNIC_TURN_SENT;
}

static enum rnic_turn send_read_request(struct rnic_card *card, struct rnic_request *request,
                                        uint8_t *payload)
{
    struct rnic_qp *row = rnic_qp(card, request->qp);
    unsigned slot = (row->first_out + row->reads_out) % RNIC_READ_SLOTS;
    request->msn = ++row->read_msn;
    struct vipl_ddp ddp = {.last = true,
                           .op = VIPL_RDMAP_READ_REQUEST,
                           .queue = VIPL_DDP_QUEUE_READ_REQUEST,
                           .msn = request->msn};
    struct vipl_rdmap_read read = {.sink_stag = (slot + 1) << 16 | row->generation,
                                   .bytes = request->work.length,
                                   .source_stag = request->work.remote_stag,
                                   .source_offset = request->work.remote_address};
    row->out[slot] = (uint16_t)((rnic_request_tag(card, request) >> 32) + 1);
    row->reads_out++;
    request->slot = (uint8_t)slot;
    vipl_ddp_write(payload, &ddp);
    vipl_rdmap_read_write(payload + VIPL_DDP_UNTAGGED_BYTES, &read);
    commit_frame(card, request, VIPL_DDP_UNTAGGED_BYTES + VIPL_RDMAP_READ_REQUEST_BYTES, 0, true);
    return RNIC_TURN_SENT;
}

enum rnic_turn rnic_requester_turn(struct rnic_card *card, uint32_t qp)
{
    const struct rnic_qp *row = rnic_qp(card, qp);
    struct rnic_request *request = rnic_request_current(card, qp);
    enum rnic_turn turn;
    if (request == NULL && (request = begin_request(card, qp, &turn)) == NULL) {
        return turn;
    }
    if (must_wait(row, request)) {
        return RNIC_TURN_IDLE;
    }
    uint8_t *payload = rnic_flow_reserve(card, row->flow - 1);
    if (payload == NULL) {
        return RNIC_TURN_BLOCKED;
    }
    if (request->window && !request->begun) {
        rnic_cost_stored(card, row->fn);
    } else {
        rnic_cost_frame(card, row->fn, RNIC_ENGINE_SEND, !request->begun);
    }
    if (request->work.opcode == RNIC_WORK_READ) {
        return send_read_request(card, request, payload);
    }
    return request->immediate ? send_immediate(card, request, payload) : send_data(card, request, payload);
}

/* --- what is not of the send queue --- */

enum rnic_turn rnic_requester_acknowledge(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    uint8_t *payload = rnic_flow_reserve(card, row->flow - 1);
    if (payload == NULL) {
        return RNIC_TURN_BLOCKED;
    }
    vipl_put32(payload, row->acknowledge);
    vipl_put32(payload + 4, 0);
    row->ack_due = false;
    struct efe_send send = {.type = EFE_MESSAGE_ACK, .to_qp = row->peer_qp, .from_qp = (uint16_t)qp};
    rnic_flow_commit(card, row->fn, row->flow - 1, &send, MESSAGE_ACK_BYTES, 0);
    return RNIC_TURN_SENT;
}

enum rnic_turn rnic_requester_terminate(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    uint8_t *payload = rnic_flow_reserve(card, row->flow - 1);
    if (payload == NULL) {
        return RNIC_TURN_BLOCKED;
    }
    rnic_flow_terminate(card, row->fn, row->flow - 1, payload, row->peer_qp, (uint16_t)qp, row->in.bytes,
                        row->terminate);
    rnic_qp_drain(card, qp);
    return RNIC_TURN_IDLE;
}

void rnic_requester_frame_acked(struct rnic_card *card, unsigned fn, uint64_t tag)
{
    struct rnic_request *request = rnic_request_find(card, fn, tag);
    if (request != NULL && request->wait == RNIC_WAIT_FRAME_ACK) {
        request->wait = RNIC_WAIT_NOTHING;
        rnic_complete_requests(card, request->qp);
    }
}

void rnic_requester_message_acked(struct rnic_card *card, uint32_t qp, const uint8_t *payload, uint32_t bytes)
{
    if (bytes < MESSAGE_ACK_BYTES) {
        return;
    }
    uint32_t message = vipl_get32(payload);
    struct rnic_request *request = rnic_request_first(card, qp);
    for (; request != NULL && (int32_t)(message - request->message) >= 0;
         request = rnic_request_behind(card, request)) {
        if (request->wait == RNIC_WAIT_MESSAGE_ACK) {
            request->wait = RNIC_WAIT_NOTHING;
        }
    }
    rnic_complete_requests(card, qp);
}
