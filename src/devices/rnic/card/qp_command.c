/* SPDX-License-Identifier: MIT */
/* The commands about queue pairs: everything is checked before anything is changed. */
#include "devices/rnic/card/command.h"

#include "devices/rnic/card/aotf.h"
#include "devices/rnic/card/doorbell.h"
#include "devices/rnic/card/flow.h"
#include "devices/rnic/card/list.h"
#include "devices/rnic/card/numbers.h"
#include "devices/rnic/card/qp.h"
#include "devices/rnic/card/raw.h"
#include "devices/rnic/card/schedule.h"

enum {
    CHANGE_RIGHTS = 1,
    CHANGE_DOMAIN = 2,
    CHANGE_LEVEL = 4,
    CHANGES = CHANGE_RIGHTS | CHANGE_DOMAIN | CHANGE_LEVEL,
    RIGHTS = RNIC_RIGHT_REMOTE_WRITE | RNIC_RIGHT_REMOTE_READ,
    RECEIVE_QUEUE = 1 /* OBJECT_KIND of SET_RING */
};
static const uint64_t closing_ns = UINT64_C(1000000000);

static bool owns(const struct rnic_card *card, const struct rnic_command *command)
{
    return rnic_numbers_owns(card, &rnic_state(card)->qps, command->fn, command->object);
}

/* --- CREATE_QP, DESTROY_QP, QUERY_QP --- */

static bool is_level(const struct rnic_card *card, unsigned fn, uint8_t level)
{
    return level <= RNIC_LEVEL_RECEPTION ||
           (level == RNIC_LEVEL_RAW && rnic_raw_allows(&rnic_state(card)->config, fn));
}

static bool read_qp(const struct rnic_card *card, const struct rnic_command *command, struct rnic_qp *row)
{
    row->fn = (uint16_t)command->fn;
    row->realm = rnic_command16(command, RNIC_CMD_QP_REALM);
    row->level = command->bytes[RNIC_CMD_QP_LEVEL];
    row->rights = command->bytes[RNIC_CMD_QP_RIGHTS];
    row->domain = rnic_command32(command, RNIC_CMD_QP_DOMAIN);
    row->send_cq = rnic_command32(command, RNIC_CMD_QP_SEND_CQ);
    row->recv_cq = rnic_command32(command, RNIC_CMD_QP_RECV_CQ);
    return is_level(card, command->fn, row->level) && (row->rights & ~RIGHTS) == 0;
}

uint16_t rnic_qp_create(struct rnic_card *card, struct rnic_command *command)
{
    struct rnic_state *state = rnic_state(card);
    struct rnic_qp row = {0};
    uint32_t qp;
    if (!read_qp(card, command, &row)) {
        return RNIC_STATUS_INVALID;
    }
    if (!rnic_numbers_owns(card, &state->cqs, command->fn, row.send_cq) ||
        !rnic_numbers_owns(card, &state->cqs, command->fn, row.recv_cq)) {
        return RNIC_STATUS_NO_OBJECT;
    }
    if (!rnic_numbers_take(card, &state->qps, command->fn, &qp)) {
        return RNIC_STATUS_NO_ROOM;
    }
    row.generation = rnic_qp(card, qp)->generation;
    *rnic_qp(card, qp) = row;
    rnic_cq(card, row.send_cq)->users++;
    rnic_cq(card, row.recv_cq)->users++;
    rnic_fn(card, command->fn)->used_qps++;
    rnic_doorbell_clear_qp(card, command->fn, qp);
    command->answer.info = qp;
    return RNIC_STATUS_OK;
}

uint16_t rnic_qp_destroy(struct rnic_card *card, struct rnic_command *command)
{
    if (!owns(card, command)) {
        return RNIC_STATUS_NO_OBJECT;
    }
    const struct rnic_qp *row = rnic_qp(card, command->object);
    if (row->state != RNIC_QP_STATE_IDLE && !row->drained) {
        return RNIC_STATUS_BUSY;
    }
    rnic_qp_free(card, command->object);
    return RNIC_STATUS_OK;
}

uint16_t rnic_qp_query(struct rnic_card *card, struct rnic_command *command)
{
    if (!owns(card, command)) {
        return RNIC_STATUS_NO_OBJECT;
    }
    const struct rnic_qp *row = rnic_qp(card, command->object);
    command->answer =
        (struct rnic_answer){.info = row->state, .length = row->error, .immediate = row->rq.next};
    return RNIC_STATUS_OK;
}

/* --- SET_RING --- */

uint16_t rnic_qp_set_ring(struct rnic_card *card, struct rnic_command *command)
{
    uint16_t queue = rnic_command16(command, RNIC_CMD_OBJECT_KIND);
    uint16_t log2 = rnic_command16(command, RNIC_CMD_RING_LOG2);
    uint64_t base = rnic_command64(command, RNIC_CMD_RING_BASE);
    if (!owns(card, command)) {
        return RNIC_STATUS_NO_OBJECT;
    }
    struct rnic_qp *row = rnic_qp(card, command->object);
    struct rnic_ring *ring = queue == RECEIVE_QUEUE ? &row->rq : &row->sq;
    bool good = queue <= RECEIVE_QUEUE && base % 64 == 0 && log2 >= RNIC_LOG2_MIN &&
                log2 <= RNIC_WORK_LOG2_MAX && log2 >= ring->log2;
    if (!good) {
        return RNIC_STATUS_INVALID;
    }
    ring->base = base;
    ring->log2 = log2;
    ring->producer = ring->next; /* what was stored before there was a ring counts as changed */
    rnic_qp_look(card, command->object);
    return RNIC_STATUS_OK;
}

/* --- MODIFY_QP --- */

/* RIGHTS, DOMAIN and LEVEL, where CHANGE has their bits. */
static bool good_changes(const struct rnic_command *command, const struct rnic_qp *row)
{
    uint8_t change = command->bytes[RNIC_CMD_QP_CHANGE];
    uint8_t to = command->bytes[RNIC_CMD_QP_LEVEL];
    bool raw = to == RNIC_LEVEL_RAW || row->level == RNIC_LEVEL_RAW;
    bool level = row->state == RNIC_QP_STATE_IDLE && (raw ? to == row->level : to <= RNIC_LEVEL_RECEPTION);
    return (change & ~CHANGES) == 0 &&
           ((change & CHANGE_RIGHTS) == 0 || (command->bytes[RNIC_CMD_QP_RIGHTS] & ~RIGHTS) == 0) &&
           ((change & CHANGE_LEVEL) == 0 || level);
}

static void apply_changes(const struct rnic_command *command, struct rnic_qp *row)
{
    uint8_t change = command->bytes[RNIC_CMD_QP_CHANGE];
    if ((change & CHANGE_RIGHTS) != 0) {
        row->rights = command->bytes[RNIC_CMD_QP_RIGHTS];
    }
    if ((change & CHANGE_DOMAIN) != 0) {
        row->domain = rnic_command32(command, RNIC_CMD_QP_DOMAIN);
    }
    if ((change & CHANGE_LEVEL) != 0) {
        row->level = command->bytes[RNIC_CMD_QP_LEVEL];
    }
}

/* IDLE to RECEIVE or CONNECTED without a peer. */
static uint16_t begin_raw(struct rnic_card *card, uint32_t qp, uint8_t state)
{
    if (!rnic_raw_open(card, qp)) {
        return RNIC_STATUS_NO_ROOM;
    }
    rnic_qp(card, qp)->state = state;
    rnic_schedule(card, qp);
    return RNIC_STATUS_OK;
}

/* IDLE to RECEIVE or CONNECTED: the peer is known from now on. */
static uint16_t meet_peer(struct rnic_card *card, const struct rnic_command *command, uint8_t state)
{
    struct rnic_qp *row = rnic_qp(card, command->object);
    uint8_t ird = command->bytes[RNIC_CMD_QP_IRD];
    uint8_t ord = command->bytes[RNIC_CMD_QP_ORD];
    uint16_t peer_fn = rnic_command16(command, RNIC_CMD_QP_PEER_FUNCTION);
    uint32_t peer_qp = rnic_command32(command, RNIC_CMD_QP_PEER_QP);
    uint32_t most = rnic_command32(command, RNIC_CMD_QP_MAX_MESSAGE);
    if (ird > RNIC_READ_SLOTS || ord > RNIC_READ_SLOTS || peer_fn == RNIC_FUNCTION_ADAPTER ||
        peer_qp >= RNIC_QP_LIMIT || most > RNIC_TRANSFER_MAX) {
        return RNIC_STATUS_INVALID;
    }
    uint32_t flow = rnic_flow_open(card, command->fn, command->bytes + RNIC_CMD_QP_PEER_MAC, peer_fn);
    if (flow == EFE_NO_FLOW) {
        return RNIC_STATUS_NO_ROOM;
    }
    row->ird = ird;
    row->ord = ord;
    row->peer_qp = (uint16_t)peer_qp;
    row->max_message = most == 0 ? RNIC_TRANSFER_MAX : most;
    row->state = state;
    rnic_qp_attach(card, command->object, flow);
    rnic_schedule(card, command->object);
    return RNIC_STATUS_OK;
}

static uint16_t close_qp(struct rnic_card *card, uint32_t qp)
{
    struct rnic_state *state = rnic_state(card);
    struct rnic_qp *row = rnic_qp(card, qp);
    rnic_qp_look(card, qp);
    if (row->state != RNIC_QP_STATE_CONNECTED) {
        return RNIC_STATUS_OK; /* the doorbell broke a rule */
    }
    row->state = RNIC_QP_STATE_CLOSING;
    row->closing = state->now + closing_ns;
    row->closing_at = row->sq.log2 == 0 ? row->sq.next : row->sq.producer;
    rnic_list_append(card, &state->closing, RNIC_LIST_CLOSING, qp);
    rnic_schedule(card, qp);
    rnic_qp_check_closing(card, qp);
    return RNIC_STATUS_OK;
}

/* ERROR to IDLE: nothing of the last connection is left but the rings, and the generation of its
 * slots. */
static void begin_again(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    rnic_aotf_release(card, qp); /* its tags were the former peer's */
    struct rnic_qp new = {.fn = row->fn,
                          .realm = row->realm,
                          .level = row->level,
                          .rights = row->rights,
                          .domain = row->domain,
                          .send_cq = row->send_cq,
                          .recv_cq = row->recv_cq,
                          .generation = row->generation,
                          .window = row->window,
                          .sq = row->sq,
                          .rq = row->rq};
    rnic_list_remove(card, &rnic_fn(card, row->fn)->events, RNIC_LIST_EVENT, qp);
    *row = new;
    rnic_doorbell_look_qp(card, qp, &row->sq.next, &row->rq.next);
    row->sq.producer = row->sq.next;
    row->rq.producer = row->rq.next;
}

static uint16_t to_state(struct rnic_card *card, const struct rnic_command *command, uint8_t to)
{
    uint32_t qp = command->object;
    struct rnic_qp *row = rnic_qp(card, qp);
    uint8_t from = row->state;
    if (from == RNIC_QP_STATE_IDLE && (to == RNIC_QP_STATE_RECEIVE || to == RNIC_QP_STATE_CONNECTED)) {
        return row->level == RNIC_LEVEL_RAW ? begin_raw(card, qp, to) : meet_peer(card, command, to);
    }
    if (from == RNIC_QP_STATE_RECEIVE && to == RNIC_QP_STATE_CONNECTED) {
        row->state = to;
        rnic_schedule(card, qp);
        return RNIC_STATUS_OK;
    }
    if (from == RNIC_QP_STATE_CONNECTED && to == RNIC_QP_STATE_CLOSING) {
        return close_qp(card, qp);
    }
    if (to == RNIC_QP_STATE_ERROR) {
        rnic_qp_stop(card, qp);
        return RNIC_STATUS_OK;
    }
    if (row->drained && to == RNIC_QP_STATE_IDLE) {
        begin_again(card, qp);
        return RNIC_STATUS_OK;
    }
    return RNIC_STATUS_WRONG_STATE;
}

uint16_t rnic_qp_modify(struct rnic_card *card, struct rnic_command *command)
{
    uint8_t to = command->bytes[RNIC_CMD_QP_STATE];
    if (!owns(card, command)) {
        return RNIC_STATUS_NO_OBJECT;
    }
    struct rnic_qp *row = rnic_qp(card, command->object);
    if ((to > RNIC_QP_STATE_ERROR && to != RNIC_QP_STATE_KEEP) || !good_changes(command, row)) {
        return RNIC_STATUS_INVALID;
    }
    struct rnic_qp before = *row;
    apply_changes(command, row);
    uint16_t status = to == RNIC_QP_STATE_KEEP ? RNIC_STATUS_OK : to_state(card, command, to);
    if (status != RNIC_STATUS_OK) {
        row->rights = before.rights;
        row->domain = before.domain;
        row->level = before.level;
    }
    return status;
}
