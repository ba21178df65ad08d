/* SPDX-License-Identifier: MIT */
/*
 * Arriving segments. A message is refused before a byte of it moves: its first frame says how long
 * it is, and everything is checked then. The peer is not trusted: the fields of a segment are
 * compared with what is due, and a segment that does not match ends the connection.
 */
#include "devices/rnic/card/responder.h"

#include "devices/rnic/card/cost.h"
#include "devices/rnic/card/cq.h"
#include "devices/rnic/card/doorbell.h"
#include "devices/rnic/card/event.h"
#include "devices/rnic/card/flow.h"
#include "devices/rnic/card/numbers.h"
#include "devices/rnic/card/qp.h"
#include "devices/rnic/card/reads.h"
#include "devices/rnic/card/schedule.h"
#include "devices/rnic/card/terminate.h"
#include "devices/rnic/card/work.h"

/* A segment that has arrived at a queue pair. */
struct arrival {
    struct rnic_card *card;
    uint32_t qp;
    struct rnic_qp *row;
    const struct efe_header *header;
    struct vipl_ddp ddp;
    const uint8_t *segment;
    const uint8_t *payload;
    uint32_t bytes; /* of payload */
};

/* --- what is wrong --- */

/* Ends the connection, and tells the peer which segment was the last. */
static bool fail_connection(const struct arrival *a, uint16_t error, uint16_t reason)
{
    struct vipl_rdmap_terminate terminate = rnic_terminate_for(reason, &a->ddp, a->header->payload_bytes);
    if (a->ddp.op == VIPL_RDMAP_READ_REQUEST && a->bytes == VIPL_RDMAP_READ_REQUEST_BYTES) {
        terminate.with_read = true;
        vipl_rdmap_read_read(a->payload, &terminate.read);
    }
    rnic_qp_fail(a->card, a->qp, error, &terminate);
    return true;
}

static bool is_last(const struct arrival *a)
{
    return (a->header->flags & EFE_LAST) != 0;
}

static void end_message(const struct arrival *a)
{
    a->row->arriving = RNIC_ARRIVING_NOTHING;
    a->row->got_message++;
}

/* Refuses a message: an Unreliable queue pair drops the message, a reliable one ends its
 * connection. */
static bool refuse_message(const struct arrival *a, uint16_t error, uint16_t reason)
{
    if (a->row->level != RNIC_LEVEL_UNRELIABLE) {
        return fail_connection(a, error, reason);
    }
    if (!a->ddp.tagged) {
        a->row->got_send_msn++;
    }
    a->row->arriving = RNIC_ARRIVING_REFUSED;
    if (is_last(a)) {
        end_message(a);
    }
    return true;
}

/* The rest of a message that was refused. */
static bool skip(const struct arrival *a)
{
    a->row->got_send_msn += a->ddp.op == VIPL_RDMAP_IMMEDIATE;
    if (is_last(a)) {
        end_message(a);
    }
    return true;
}

/* --- receives --- */

enum opening { OPENED, LATER, CLOSED };

/* The message was received as its level asks for. */
static void acknowledge(const struct arrival *a)
{
    struct rnic_qp *row = a->row;
    bool write = row->arriving == RNIC_ARRIVING_WRITE;
    if (row->level == RNIC_LEVEL_RECEPTION || (row->level == RNIC_LEVEL_DELIVERY && write)) {
        row->ack_due = true;
        row->acknowledge = a->header->message;
        rnic_schedule(a->card, a->qp);
    }
}

static void complete_receive(const struct arrival *a, uint16_t status, uint8_t flags, uint32_t immediate)
{
    struct rnic_qp *row = a->row;
    const struct rnic_work *work = &row->in.receive;
    struct rnic_completion completion = {.qp = a->qp,
                                         .cookie = work->cookie,
                                         .length = status == RNIC_STATUS_OK ? row->got : 0,
                                         .immediate = immediate,
                                         .info = work->behind,
                                         .status = status,
                                         .opcode = RNIC_WORK_RECEIVE,
                                         .flags = flags};
    row->has_receive = false;
    rnic_cq_complete(a->card, row->recv_cq, &completion);
}

/*
 * There is no receive. If the driver holds some back, the message waits in its flow: the doorbell
 * that changes that makes the card look again; when it holds none any more, it has rung the
 * doorbell of the last of them before. Otherwise the bus may carry a doorbell that the driver rang
 * before: it gets the time until the next advance.
 */
static enum opening find_none(const struct arrival *a)
{
    struct rnic_qp *row = a->row;
    uint32_t advances = rnic_state(a->card)->advances;
    if (rnic_doorbell_holds(a->card, a->qp)) {
        row->looked = false;
        return LATER;
    }
    if (!row->looked) {
        row->looked = true;
        row->looked_at = advances;
    }
    if (row->looked_at == advances) {
        rnic_state(a->card)->kick = true;
        return LATER;
    }
    row->looked = false;
    if (row->level == RNIC_LEVEL_UNRELIABLE) {
        rnic_event_qp(a->card, a->qp, RNIC_ERROR_RECV_EMPTY);
    }
    refuse_message(a, RNIC_ERROR_RECV_EMPTY, VIPL_TERM_DDP_UNTAGGED_NO_BUFFER);
    return CLOSED;
}

/* The oldest receive is copied into the queue pair. */
static enum opening find_receive(const struct arrival *a)
{
    struct rnic_qp *row = a->row;
    if (row->has_receive) {
        return OPENED;
    }
    if (row->rq.log2 == 0 || row->rq.next == row->rq.producer) {
        rnic_qp_look(a->card, a->qp);
        if (row->state == RNIC_QP_STATE_ERROR) {
            return CLOSED;
        }
        if (row->rq.log2 == 0 || row->rq.next == row->rq.producer) {
            return find_none(a);
        }
    }
    row->looked = false;
    if (rnic_work_fetch(a->card, a->qp, &row->rq, &row->in.receive) != RNIC_WORK_GOOD) {
        fail_connection(a, RNIC_ERROR_RING_DMA, VIPL_TERM_RDMAP_LOCAL_CATASTROPHIC);
        return CLOSED;
    }
    row->has_receive = true;
    return OPENED;
}

static uint16_t receive_error(enum rnic_outcome outcome)
{
    return outcome == RNIC_WORK_GOOD  ? RNIC_ERROR_NONE
           : outcome == RNIC_WORK_BAD ? RNIC_ERROR_RECV_FORMAT
           : outcome == RNIC_WORK_BUS ? RNIC_ERROR_DMA
                                      : RNIC_ERROR_RECV_PROTECTION;
}

/* Returns what is wrong with the receive for a message that places `bytes` bytes there. */
static uint16_t judge_receive(const struct arrival *a, uint32_t bytes)
{
    static const struct rnic_cursor start = {0};
    const struct rnic_qp *row = a->row;
    const struct rnic_work *work = &row->in.receive;
    if (work->opcode != RNIC_WORK_RECEIVE || (work->flags & ~RNIC_WORK_FLAG_LIST) != 0) {
        return RNIC_ERROR_RECV_FORMAT;
    }
    enum rnic_outcome outcome = rnic_work_measure(a->card, a->qp, work);
    if (outcome == RNIC_WORK_GOOD && (bytes > work->length || bytes > row->max_message)) {
        return RNIC_ERROR_RECV_LENGTH;
    }
    if (outcome == RNIC_WORK_GOOD) {
        outcome = rnic_work_check(a->card, a->qp, work, &start, bytes, RNIC_ACCESS_LOCAL_WRITE);
    }
    return receive_error(outcome);
}

/* The receive ends for this reason, and the message with it; after a refused DMA the connection
 * too, whatever its level. */
static bool close_receive(const struct arrival *a, uint16_t error)
{
    uint16_t status = error == RNIC_ERROR_RECV_LENGTH   ? RNIC_STATUS_LOCAL_LENGTH
                      : error == RNIC_ERROR_RECV_FORMAT ? RNIC_STATUS_LOCAL_FORMAT
                                                        : RNIC_STATUS_LOCAL_PROTECTION;
    uint16_t reason =
        error == RNIC_ERROR_RECV_LENGTH ? VIPL_TERM_DDP_UNTAGGED_TOO_LONG : VIPL_TERM_DDP_LOCAL_CATASTROPHIC;
    complete_receive(a, status, 0, 0);
    return error == RNIC_ERROR_DMA ? fail_connection(a, error, reason) : refuse_message(a, error, reason);
}

/* Opens the receive for a message that places `bytes` bytes there. */
static enum opening open_receive(const struct arrival *a, uint32_t bytes)
{
    enum opening opening = find_receive(a);
    if (opening != OPENED) {
        return opening;
    }
    uint16_t error = judge_receive(a, bytes);
    if (error != RNIC_ERROR_NONE) {
        close_receive(a, error);
        return CLOSED;
    }
    a->row->at = (struct rnic_cursor){0};
    return OPENED;
}

/* --- Sends --- */

/* Whether the segment is the next one of its message, in all that it says. */
static bool continues(const struct arrival *a, uint32_t left)
{
    bool promised = a->row->promised != 0;
    return a->header->left == left && a->bytes <= left && a->ddp.last == (a->bytes == left) &&
           is_last(a) == (a->ddp.last && !promised);
}

static bool begins(const struct arrival *a)
{
    return a->row->arriving == RNIC_ARRIVING_NOTHING;
}

static bool place_send(const struct arrival *a)
{
    struct rnic_qp *row = a->row;
    enum rnic_outcome outcome =
        rnic_work_scatter(a->card, a->qp, &row->in.receive, &row->at, a->payload, a->bytes);
    if (outcome != RNIC_WORK_GOOD) {
        return close_receive(a, receive_error(outcome));
    }
    row->got += a->bytes;
    row->left -= a->bytes;
    row->got_send_msn += a->ddp.last;
    if (is_last(a)) {
        complete_receive(a, RNIC_STATUS_OK, 0, 0);
        acknowledge(a);
        end_message(a);
    }
    return true;
}

static bool take_send(const struct arrival *a)
{
    struct rnic_qp *row = a->row;
    bool first = begins(a);
    bool promises = a->ddp.op == VIPL_RDMAP_SEND_SE;
    if (!first &&
        (row->arriving != RNIC_ARRIVING_SEND || promises != (row->promised != 0) || row->left == 0)) {
        return fail_connection(a, RNIC_ERROR_PROTOCOL, VIPL_TERM_RDMAP_OPCODE);
    }
    row->promised = promises;
    if (a->ddp.msn != row->got_send_msn + 1) {
        return fail_connection(a, RNIC_ERROR_PROTOCOL, VIPL_TERM_DDP_UNTAGGED_MSN);
    }
    if (a->ddp.mo != (first ? 0 : row->got) || !continues(a, first ? a->header->left : row->left)) {
        return fail_connection(a, RNIC_ERROR_PROTOCOL, VIPL_TERM_DDP_UNTAGGED_MO);
    }
    if (first) {
        enum opening opening = open_receive(a, a->header->left);
        if (opening != OPENED) {
            return opening != LATER;
        }
        row->arriving = RNIC_ARRIVING_SEND;
        row->got = 0;
        row->left = a->header->left;
    }
    return place_send(a);
}

/* --- RDMA Writes --- */

static bool place_write(const struct arrival *a)
{
    struct rnic_qp *row = a->row;
    struct rnic_segment range = {a->ddp.offset, a->bytes, a->ddp.stag};
    if (!rnic_mr_write(a->card, a->qp, &range, a->payload)) {
        return fail_connection(a, RNIC_ERROR_DMA, rnic_terminate_bus(a->card, row->fn));
    }
    row->address += a->bytes;
    row->got += a->bytes;
    row->left -= a->bytes;
    row->promised = a->ddp.last && !is_last(a);
    if (is_last(a)) {
        acknowledge(a);
        end_message(a);
    }
    return true;
}

static bool take_write(const struct arrival *a)
{
    struct rnic_qp *row = a->row;
    bool first = begins(a);
    if (!first && (row->arriving != RNIC_ARRIVING_WRITE || row->promised)) {
        return fail_connection(a, RNIC_ERROR_PROTOCOL, VIPL_TERM_RDMAP_OPCODE);
    }
    uint32_t left = first ? a->header->left : row->left;
    bool fits = a->header->left == left && a->bytes <= left && a->ddp.last == (a->bytes == left) &&
                (a->ddp.last || !is_last(a));
    if (!fits || (!first && (a->ddp.offset != row->address || a->ddp.stag != row->stag))) {
        return fail_connection(a, RNIC_ERROR_PROTOCOL, VIPL_TERM_DDP_TAGGED_BOUNDS);
    }
    struct rnic_segment range = {a->ddp.offset, left, a->ddp.stag};
    enum rnic_refusal refusal = rnic_mr_check(a->card, a->qp, RNIC_ACCESS_REMOTE_WRITE, &range);
    refusal = refusal == RNIC_ALLOWED && left > row->max_message ? RNIC_REFUSED_BOUNDS : refusal;
    if (refusal != RNIC_ALLOWED) {
        if (row->level == RNIC_LEVEL_UNRELIABLE) {
            rnic_event_qp(a->card, a->qp, RNIC_ERROR_WRITE_DENIED);
        }
        return refuse_message(a, RNIC_ERROR_WRITE_DENIED, rnic_terminate_refusal(refusal, false));
    }
    if (first) {
        row->arriving = RNIC_ARRIVING_WRITE;
        row->address = a->ddp.offset;
        row->stag = a->ddp.stag;
        row->got = 0;
        row->left = left;
    }
    return place_write(a);
}

/* --- immediate data --- */

static bool take_immediate(const struct arrival *a)
{
    struct rnic_qp *row = a->row;
    bool write = row->arriving == RNIC_ARRIVING_WRITE;
    if (begins(a) || !row->promised || row->left != 0 || a->header->left != 0 || !is_last(a)) {
        return fail_connection(a, RNIC_ERROR_PROTOCOL, VIPL_TERM_RDMAP_OPCODE);
    }
    if (a->ddp.msn != row->got_send_msn + 1 || a->ddp.mo != 0 || !a->ddp.last) {
        return fail_connection(a, RNIC_ERROR_PROTOCOL, VIPL_TERM_DDP_UNTAGGED_MSN);
    }
    if (a->bytes != VIPL_RDMAP_IMMEDIATE_BYTES) {
        return fail_connection(a, RNIC_ERROR_PROTOCOL, VIPL_TERM_RDMAP_UNSPECIFIED);
    }
    enum opening opening = write ? open_receive(a, 0) : OPENED;
    if (opening != OPENED) {
        return opening != LATER;
    }
    row->got_send_msn++;
    complete_receive(a, RNIC_STATUS_OK, (uint8_t)(RNIC_CQE_FLAG_IMMEDIATE | (write ? RNIC_CQE_FLAG_RDMA : 0)),
                     vipl_rdmap_immediate_read(a->payload));
    acknowledge(a);
    end_message(a);
    return true;
}

/* --- RDMA Reads --- */

static bool take_read_request(const struct arrival *a)
{
    struct rnic_qp *row = a->row;
    struct vipl_rdmap_read read;
    if (!begins(a) || !is_last(a) || row->level == RNIC_LEVEL_UNRELIABLE) {
        return fail_connection(a, RNIC_ERROR_PROTOCOL, VIPL_TERM_RDMAP_OPCODE);
    }
    if (a->ddp.msn != row->got_read_msn + 1 || a->ddp.mo != 0 || !a->ddp.last) {
        return fail_connection(a, RNIC_ERROR_PROTOCOL, VIPL_TERM_DDP_UNTAGGED_MSN);
    }
    if (a->bytes != VIPL_RDMAP_READ_REQUEST_BYTES) {
        return fail_connection(a, RNIC_ERROR_PROTOCOL, VIPL_TERM_RDMAP_UNSPECIFIED);
    }
    if (row->reads_in >= row->ird) {
        return fail_connection(a, RNIC_ERROR_READ_LIMIT, VIPL_TERM_DDP_UNTAGGED_NO_BUFFER);
    }
    vipl_rdmap_read_read(a->payload, &read);
    struct rnic_segment range = {read.source_offset, read.bytes, read.source_stag};
    enum rnic_refusal refusal = rnic_mr_check(a->card, a->qp, RNIC_ACCESS_REMOTE_READ, &range);
    if (refusal != RNIC_ALLOWED) {
        return fail_connection(a, RNIC_ERROR_READ_DENIED, rnic_terminate_refusal(refusal, true));
    }
    row->got_read_msn++;
    row->got_message++;
    rnic_reads_add(a->card, a->qp, &read);
    return true;
}

static bool take_read_response(const struct arrival *a)
{
    if (!rnic_reads_answered(a->card, a->qp, &a->ddp, a->payload, a->bytes, a->header->left)) {
        return fail_connection(a, RNIC_ERROR_PROTOCOL, VIPL_TERM_DDP_TAGGED_STAG);
    }
    return true;
}

/* --- dispatch --- */

/* A segment of a message that the peer's send queue has. */
static bool take_message(const struct arrival *a)
{
    bool first = (a->header->flags & EFE_FIRST) != 0;
    if (a->header->message != a->row->got_message || first != begins(a)) {
        return fail_connection(a, RNIC_ERROR_PROTOCOL, VIPL_TERM_RDMAP_UNSPECIFIED);
    }
    if (a->row->arriving == RNIC_ARRIVING_REFUSED) {
        return skip(a);
    }
    switch (a->ddp.op) {
    case VIPL_RDMAP_SEND:
    case VIPL_RDMAP_SEND_SE:
        return take_send(a);
    case VIPL_RDMAP_WRITE:
        return take_write(a);
    case VIPL_RDMAP_IMMEDIATE:
        return take_immediate(a);
    case VIPL_RDMAP_READ_REQUEST:
        return take_read_request(a);
    default:
        return fail_connection(a, RNIC_ERROR_PROTOCOL, VIPL_TERM_RDMAP_OPCODE);
    }
}

static bool take_segment(struct arrival *a)
{
    enum vipl_ddp_fault fault = vipl_ddp_read(a->segment, a->header->payload_bytes, &a->ddp);
    if (fault != VIPL_DDP_OK) {
        bool tagged = a->header->payload_bytes > 0 && (a->segment[0] & 0x80) != 0;
        rnic_qp_fail(a->card, a->qp, RNIC_ERROR_PROTOCOL,
                     &(struct vipl_rdmap_terminate){.reason = rnic_terminate_fault(fault, tagged)});
        return true;
    }
    a->payload = a->segment + a->ddp.header_bytes;
    a->bytes = (uint32_t)(a->ddp.segment_bytes - a->ddp.header_bytes);
    if (a->ddp.op == VIPL_RDMAP_TERMINATE) {
        rnic_terminate_received(a->card, a->qp, a->payload, a->bytes);
        return true;
    }
    return a->ddp.op == VIPL_RDMAP_READ_RESPONSE ? take_read_response(a) : take_message(a);
}

bool rnic_responder_find(const struct rnic_card *card, uint32_t flow, const struct efe_header *header,
                         uint32_t *qp)
{
    *qp = header->to_qp;
    if (!rnic_numbers_owns(card, &rnic_state(card)->qps, header->to_fn, *qp)) {
        return false;
    }
    const struct rnic_qp *row = rnic_qp(card, *qp);
    return row->flow == flow + 1 && row->peer_qp == header->from_qp;
}

/* A queue pair that is going to ERROR, or is in it, hears nothing more. */
static bool is_deaf(const struct rnic_card *card, const struct efe_header *header)
{
    return rnic_numbers_owns(card, &rnic_state(card)->qps, header->to_fn, header->to_qp) &&
           rnic_qp(card, header->to_qp)->state == RNIC_QP_STATE_ERROR;
}

/* A frame for nobody. The peer is told, unless this is what it has just told us. */
static bool refuse_frame(struct rnic_card *card, uint32_t flow, const struct efe_header *header,
                         const uint8_t *segment)
{
    struct vipl_ddp ddp;
    bool quiet = is_deaf(card, header) ||
                 vipl_ddp_read(segment, header->payload_bytes, &ddp) != VIPL_DDP_OK ||
                 ddp.op == VIPL_RDMAP_TERMINATE;
    if (!quiet) {
        struct vipl_rdmap_terminate terminate = {.reason = VIPL_TERM_RDMAP_STREAM_CATASTROPHIC};
        uint8_t bytes[VIPL_RDMAP_MAX_TERMINATE_BYTES];
        uint8_t *payload = rnic_flow_reserve(card, flow);
        /* else the flow is full of such frames, perhaps, and waits for itself: a later one is
         * answered */
        if (payload != NULL) {
            size_t length = vipl_rdmap_terminate_write(bytes, &terminate);
            rnic_flow_terminate(card, header->to_fn, flow, payload, header->from_qp, header->to_qp, bytes,
                                (uint32_t)length);
        }
    }
    rnic_count(card, header->to_fn, RNIC_COUNT_DROPPED, 1);
    return true;
}

bool rnic_responder_take(struct rnic_card *card, uint32_t flow, const struct efe_header *header,
                         const uint8_t *payload)
{
    struct arrival a = {.card = card, .header = header, .segment = payload};
    if (!rnic_responder_find(card, flow, header, &a.qp)) {
        return refuse_frame(card, flow, header, payload);
    }
    a.row = rnic_qp(card, a.qp);
    if (a.row->state == RNIC_QP_STATE_ERROR) {
        return true;
    }
    bool taken = take_segment(&a);
    if (taken) {
        rnic_cost_frame(card, header->to_fn, RNIC_ENGINE_RECEIVE, (header->flags & EFE_FIRST) != 0);
    }
    return taken;
}
