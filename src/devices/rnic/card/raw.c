/* SPDX-License-Identifier: MIT */
/*
 * Raw queue pairs. Each that is not IDLE has a row of a small table, with room for one frame: the
 * frame of its oldest entry is copied there before it is due, so that it leaves at its launch time
 * and not when it has been read. An entry is complete when the switch has taken its frame. What the
 * wire has no room for stays in the row, and nothing behind it is begun.
 *
 * Frames are handed to EFE's switch like those of EFE. A raw queue pair neither sends nor receives
 * EFE's own frames, which would be those of other functions' connections.
 */
#include "devices/rnic/card/raw.h"

#include <string.h>

#include "devices/rnic/card/cost.h"
#include "devices/rnic/card/cq.h"
#include "devices/rnic/card/error.h"
#include "devices/rnic/card/qp.h"
#include "devices/rnic/card/schedule.h"
#include "devices/rnic/card/wire.h"
#include "devices/rnic/card/work.h"
#include "iwarp/bytes.h"

enum { TYPE_AT = 12, VLAN = 0x8100, SERVICE_VLAN = 0x88A8, GROUP_BIT = 1, HALF = 32 };

/* --- the table --- */

bool rnic_raw_allows(const struct rnic_card_config *config, unsigned fn)
{
    return (config->raw[fn / 64] >> fn % 64 & 1) != 0;
}

size_t rnic_raw_bytes(const struct rnic_card_config *config)
{
    bool any = false;
    for (unsigned fn = 0; fn < config->functions; fn++) {
        any = any || rnic_raw_allows(config, fn);
    }
    return any ? RNIC_RAW_QPS * sizeof(struct rnic_raw) : 0;
}

bool rnic_raw_open(struct rnic_card *card, uint32_t qp)
{
    for (uint32_t i = 0; i < RNIC_RAW_QPS; i++) {
        struct rnic_raw *raw = rnic_raw(card, i);
        if (raw->qp == 0) {
            raw->qp = qp + 1;
            raw->has = false;
            raw->due = UINT64_MAX;
            rnic_qp(card, qp)->raw = (uint16_t)(i + 1);
            rnic_state(card)->raw_users++;
            return true;
        }
    }
    return false;
}

void rnic_raw_close(struct rnic_card *card, uint32_t qp)
{
    struct rnic_state *state = rnic_state(card);
    struct rnic_qp *row = rnic_qp(card, qp);
    if (row->raw != 0) {
        uint32_t bit = 1u << (row->raw - 1u);
        rnic_raw(card, row->raw - 1u)->qp = 0;
        row->raw = 0;
        state->raw_ready &= ~bit;
        state->raw_blocked &= ~bit;
        state->raw_users--;
    }
}

bool rnic_raw_owes(const struct rnic_card *card, uint32_t qp)
{
    const struct rnic_qp *row = rnic_qp(card, qp);
    return row->raw != 0 && rnic_raw(card, row->raw - 1u)->has;
}

/* --- waiting --- */

static void hold_until(struct rnic_card *card, uint32_t i, uint64_t due)
{
    struct rnic_state *state = rnic_state(card);
    rnic_raw(card, i)->due = due;
    state->raw_due = due < state->raw_due ? due : state->raw_due;
}

void rnic_raw_advance(struct rnic_card *card)
{
    struct rnic_state *state = rnic_state(card);
    if (state->raw_due > state->now) {
        return;
    }
    state->raw_due = UINT64_MAX;
    for (uint32_t i = 0; i < RNIC_RAW_QPS; i++) {
        struct rnic_raw *raw = rnic_raw(card, i);
        if (raw->qp != 0 && raw->due <= state->now) {
            raw->due = UINT64_MAX;
            state->raw_ready |= 1u << i;
        } else if (raw->qp != 0) {
            hold_until(card, i, raw->due);
        }
    }
}

void rnic_raw_unblock(struct rnic_card *card)
{
    struct rnic_state *state = rnic_state(card);
    state->raw_ready |= state->raw_blocked;
    state->raw_blocked = 0;
}

/* --- sending --- */

/* How an entry of the receive queue, or of the send queue, has ended. Its opcode is the driver's,
 * and may be neither. */
static void complete(struct rnic_card *card, uint32_t qp, bool receives, const struct rnic_work *work,
                     uint16_t status, uint32_t bytes, uint64_t time)
{
    const struct rnic_qp *row = rnic_qp(card, qp);
    struct rnic_completion completion = {.qp = qp,
                                         .cookie = work->cookie,
                                         .length = bytes,
                                         .immediate = (uint32_t)time,
                                         .time_high = (uint32_t)(time >> HALF),
                                         .info = work->behind,
                                         .status = status,
                                         .opcode = receives ? RNIC_WORK_RECEIVE : RNIC_WORK_SEND,
                                         .flags = RNIC_CQE_FLAG_TIME};
    rnic_cq_complete(card, receives ? row->recv_cq : row->send_cq, &completion);
}

static uint16_t status_of(enum rnic_outcome outcome)
{
    return outcome == RNIC_WORK_BAD ? RNIC_STATUS_LOCAL_FORMAT : RNIC_STATUS_LOCAL_PROTECTION;
}

/* The entry has failed, and with a refused DMA its queue pair. */
static void fail_entry(struct rnic_card *card, uint32_t qp, bool receives, const struct rnic_work *work,
                       enum rnic_outcome outcome)
{
    complete(card, qp, receives, work, status_of(outcome), 0, rnic_cost_now(card));
    if (outcome == RNIC_WORK_BUS) {
        rnic_qp_fail(card, qp, RNIC_ERROR_DMA, NULL);
    }
}

static bool has_entry(const struct rnic_qp *row)
{
    uint32_t end = row->state == RNIC_QP_STATE_CLOSING ? row->closing_at : row->sq.producer;
    return rnic_qp_sends(row) && row->sq.log2 != 0 && row->sq.next != end;
}

static bool is_frame(const struct rnic_card *card, const uint8_t *frame, uint32_t bytes)
{
    uint16_t type = vipl_get16(frame + TYPE_AT);
    uint32_t tag = type == VLAN || type == SERVICE_VLAN ? EFE_TAG_BYTES : 0;
    return type != EFE_ETHERTYPE && bytes <= EFE_ETHERNET_BYTES + tag + rnic_state(card)->config.mtu;
}

static enum rnic_outcome copy_frame(struct rnic_card *card, uint32_t qp, struct rnic_raw *raw)
{
    const struct rnic_work *work = &raw->work;
    struct rnic_cursor at = {0};
    if (work->opcode != RNIC_WORK_SEND || (work->flags & ~RNIC_WORK_FLAG_LIST) != 0 ||
        work->length < EFE_ETHERNET_BYTES ||
        work->length > EFE_ETHERNET_BYTES + EFE_TAG_BYTES + rnic_state(card)->config.mtu) {
        return RNIC_WORK_BAD;
    }
    enum rnic_outcome outcome = rnic_work_measure(card, qp, work);
    if (outcome == RNIC_WORK_GOOD) {
        outcome = rnic_work_gather(card, qp, work, &at, raw->frame, work->length);
    }
    return outcome == RNIC_WORK_GOOD && !is_frame(card, raw->frame, work->length) ? RNIC_WORK_BAD : outcome;
}

/* Copies the next entry and its frame into the row. Returns false if there is none. */
static bool take_entry(struct rnic_card *card, uint32_t qp, struct rnic_raw *raw)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    if (!has_entry(row)) {
        return false;
    }
    if (rnic_work_fetch(card, qp, &row->sq, &raw->work) != RNIC_WORK_GOOD) {
        rnic_qp_fail(card, qp, RNIC_ERROR_RING_DMA, NULL);
        return true;
    }
    rnic_cost_frame(card, row->fn, RNIC_ENGINE_SEND, true);
    enum rnic_outcome outcome = copy_frame(card, qp, raw);
    raw->has = outcome == RNIC_WORK_GOOD;
    if (!raw->has) {
        fail_entry(card, qp, false, &raw->work, outcome);
    }
    return true;
}

/* The switch takes the frame, if its time has come and there is room. */
static void launch(struct rnic_card *card, uint32_t i)
{
    struct rnic_raw *raw = rnic_raw(card, i);
    uint32_t qp = raw->qp - 1;
    unsigned fn = rnic_qp(card, qp)->fn;
    uint64_t now = rnic_cost_now(card);
    uint64_t time = raw->work.remote_address;
    uint64_t room = rnic_wire_room(card, raw->frame, raw->work.length);
    bool due = time <= now && room <= now;
    if (due && rnic_wire_send(card, fn, raw->frame, raw->work.length)) {
        raw->has = false;
        complete(card, qp, false, &raw->work, RNIC_STATUS_OK, raw->work.length, now);
        rnic_schedule(card, qp);
    } else if (due || room == UINT64_MAX) {
        rnic_state(card)->raw_blocked |= 1u << i;
    } else {
        hold_until(card, i, time > room ? time : room);
    }
}

/* One step of a queue pair: its next entry, and its frame if it may leave. Returns false if there
 * was nothing to do. */
static bool take_step(struct rnic_card *card, uint32_t i)
{
    struct rnic_raw *raw = rnic_raw(card, i);
    uint32_t qp = raw->qp - 1;
    if (!raw->has && !take_entry(card, qp, raw)) {
        return false;
    }
    if (raw->qp == 0) {
        return true; /* it has failed */
    }
    if (raw->has) {
        launch(card, i);
    } else {
        rnic_schedule(card, qp); /* the entry has failed, and the next one has its turn */
    }
    rnic_qp_check_closing(card, qp);
    return true;
}

uint32_t rnic_raw_run(struct rnic_card *card, uint32_t most)
{
    struct rnic_state *state = rnic_state(card);
    uint32_t done = 0;
    while (done < most && state->raw_ready != 0) {
        uint32_t i = state->raw_next++ % RNIC_RAW_QPS;
        if ((state->raw_ready & 1u << i) == 0) {
            continue;
        }
        state->raw_ready &= ~(1u << i);
        unsigned fn = rnic_qp(card, rnic_raw(card, i)->qp - 1)->fn;
        if (rnic_fn(card, fn)->deaf_until > state->now) {
            hold_until(card, i, rnic_fn(card, fn)->deaf_until);
        } else if (rnic_works(card, fn)) {
            done += take_step(card, i);
        }
    }
    return done;
}

/* --- receiving --- */

bool rnic_raw_wants(const struct rnic_card *card, const uint8_t *frame, uint32_t bytes)
{
    return rnic_state(card)->raw_users != 0 && bytes >= EFE_ETHERNET_BYTES &&
           vipl_get16(frame + TYPE_AT) != EFE_ETHERTYPE;
}

static bool passes_filter(const struct rnic_card *card, const struct rnic_qp *row, const uint8_t *frame)
{
    const uint8_t *mac = rnic_state(card)->config.mac;
    return (row->rights & RNIC_FILTER_PROMISCUOUS) != 0 || memcmp(frame, mac, 6) == 0 ||
           ((row->rights & RNIC_FILTER_MULTICAST) != 0 && (frame[0] & GROUP_BIT) != 0);
}

/* Copies the oldest receive. Returns false if there is none, or the queue pair has failed. */
static bool take_receive(struct rnic_card *card, uint32_t qp, struct rnic_work *work)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    if (row->rq.next == row->rq.producer) {
        rnic_qp_look(card, qp);
    }
    if (row->state == RNIC_QP_STATE_ERROR) {
        return false;
    }
    if (row->rq.next == row->rq.producer) {
        rnic_count(card, row->fn, RNIC_COUNT_RAW_MISSED, 1);
        return false;
    }
    if (rnic_work_fetch(card, qp, &row->rq, work) != RNIC_WORK_GOOD) {
        rnic_qp_fail(card, qp, RNIC_ERROR_RING_DMA, NULL);
        return false;
    }
    return true;
}

static enum rnic_outcome store_frame(struct rnic_card *card, uint32_t qp, const struct rnic_work *work,
                                     const uint8_t *frame, uint32_t bytes)
{
    struct rnic_cursor at = {0};
    if (work->opcode != RNIC_WORK_RECEIVE || (work->flags & ~RNIC_WORK_FLAG_LIST) != 0) {
        return RNIC_WORK_BAD;
    }
    enum rnic_outcome outcome = rnic_work_measure(card, qp, work);
    if (outcome == RNIC_WORK_GOOD) {
        outcome = rnic_work_check(card, qp, work, &at, bytes, RNIC_ACCESS_LOCAL_WRITE);
    }
    return outcome == RNIC_WORK_GOOD ? rnic_work_scatter(card, qp, work, &at, frame, bytes) : outcome;
}

static void deliver(struct rnic_card *card, uint32_t qp, const uint8_t *frame, uint32_t bytes)
{
    const struct rnic_qp *row = rnic_qp(card, qp);
    uint64_t time = rnic_cost_now(card);
    struct rnic_work work;
    if (!take_receive(card, qp, &work)) {
        return;
    }
    rnic_cost_frame(card, row->fn, RNIC_ENGINE_RECEIVE, true);
    uint32_t stored = bytes < work.length ? bytes : work.length;
    enum rnic_outcome outcome = store_frame(card, qp, &work, frame, stored);
    if (outcome != RNIC_WORK_GOOD) {
        fail_entry(card, qp, true, &work, outcome);
        return;
    }
    rnic_count(card, row->fn, RNIC_COUNT_RX_FRAMES, 1);
    rnic_count(card, row->fn, RNIC_COUNT_RX_BYTES, bytes);
    complete(card, qp, true, &work, stored < bytes ? RNIC_STATUS_LOCAL_LENGTH : RNIC_STATUS_OK, stored, time);
}

void rnic_raw_arrive(struct rnic_card *card, const uint8_t *frame, uint32_t bytes)
{
    for (uint32_t i = 0; i < RNIC_RAW_QPS; i++) {
        uint32_t qp = rnic_raw(card, i)->qp;
        if (qp == 0) {
            continue;
        }
        const struct rnic_qp *row = rnic_qp(card, qp - 1);
        if (row->rq.log2 != 0 && rnic_works(card, row->fn) && passes_filter(card, row, frame)) {
            deliver(card, qp - 1, frame, bytes);
        }
    }
}
