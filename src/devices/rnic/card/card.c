/* SPDX-License-Identifier: MIT */
/* The card's interface: its area, attaching and detaching functions, its clock. */
#include "devices/rnic/card/card.h"

#include <string.h>

#include "devices/rnic/card/aotf.h"
#include "devices/rnic/card/config.h"
#include "devices/rnic/card/cost.h"
#include "devices/rnic/card/cq.h"
#include "devices/rnic/card/devmem.h"
#include "devices/rnic/card/dma.h"
#include "devices/rnic/card/doorbell.h"
#include "devices/rnic/card/event.h"
#include "devices/rnic/card/faults.h"
#include "devices/rnic/card/interrupt.h"
#include "devices/rnic/card/pbl.h"
#include "devices/rnic/card/qp.h"
#include "devices/rnic/card/raw.h"
#include "devices/rnic/card/record.h"
#include "devices/rnic/card/reset.h"
#include "devices/rnic/card/schedule.h"
#include "devices/rnic/card/steps.h"
#include "devices/rnic/card/wire.h"
#include "devices/rnic/efe/layout.h"

enum { ALIGNMENT = 64, REUSE_AFTER = 1024, COMMANDS = 16 /* of a function, in a row */ };

/* --- the area --- */

static uint64_t part(uint64_t *end, uint64_t rows, uint64_t bytes)
{
    uint64_t at = *end;
    *end += (rows * bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static void lay_out_numbers(struct rnic_numbers *numbers, uint64_t *end, uint32_t limit)
{
    numbers->limit = limit;
    numbers->rest = REUSE_AFTER;
    numbers->links = part(end, limit, sizeof(uint32_t));
    numbers->owners = part(end, limit, sizeof(uint16_t));
}

/* Sets where the tables are; returns the area's bytes. */
static uint64_t lay_out(struct rnic_state *state)
{
    const struct rnic_card_config *config = &state->config;
    uint64_t end = 0;
    part(&end, 1, sizeof(*state));
    lay_out_numbers(&state->qps, &end, config->qps);
    lay_out_numbers(&state->cqs, &end, config->cqs);
    lay_out_numbers(&state->mrs, &end, config->stags);
    lay_out_numbers(&state->listens, &end, RNIC_LISTENS);
    state->fns = part(&end, config->functions, sizeof(struct rnic_fn));
    state->qp_rows = part(&end, config->qps, sizeof(struct rnic_qp));
    state->inbound_rows = part(&end, config->qps, RNIC_READ_SLOTS * sizeof(struct rnic_inbound));
    state->raw_rows = part(&end, 1, rnic_raw_bytes(config));
    state->template_rows = part(&end, config->functions, RNIC_AOTF_PAGES * sizeof(struct rnic_template));
    state->store_rows = part(&end, config->functions, RNIC_AOTF_STORES * sizeof(struct rnic_store));
    state->cq_rows = part(&end, config->cqs, sizeof(struct rnic_cq));
    state->mr_rows = part(&end, config->stags, sizeof(struct rnic_mr));
    state->pbl_rows = part(&end, config->pbl_entries, sizeof(uint64_t));
    state->pbl_marks = part(&end, config->pbl_entries, sizeof(uint8_t));
    state->listen_rows = part(&end, RNIC_LISTENS, sizeof(struct rnic_listen));
    state->claim_rows = part(&end, RNIC_CLAIMS, sizeof(struct rnic_claim));
    state->request_rows = part(&end, config->functions, RNIC_REQUESTS * sizeof(struct rnic_request));
    state->request_links = part(&end, config->functions, RNIC_REQUESTS * sizeof(uint32_t));
    state->flow_rows = part(&end, config->flows, sizeof(struct rnic_flow));
    state->faults = part(&end, 1, rnic_fault_bytes());
    state->wire_switch = part(&end, 1, rnic_wire_switch_bytes(config));
    state->efe = part(&end, 1, rnic_wire_efe_bytes(config));
    return end;
}

size_t rnic_card_bytes(const struct rnic_card_config *config)
{
    struct rnic_state state = {.config = *config};
    return (size_t)lay_out(&state);
}

static void record_card(struct rnic_card *card)
{
    char text[RNIC_CARD_TEXT];
    if (rnic_card_describe(&rnic_state(card)->config, text, sizeof(text))) {
        rnic_record(card, (struct rnic_transaction){
                              .kind = RNIC_TRANSACTION_CARD, .bytes = (uint32_t)strlen(text), .data = text});
    }
}

void rnic_card_init(struct rnic_card *card, void *area, const struct rnic_card_config *config,
                    const struct rnic_card_host *host, void *context)
{
    *card = (struct rnic_card){.area = area, .host = host, .context = context};
    struct rnic_state *state = rnic_state(card);
    state->config = *config;
    lay_out(state);
    state->random = config->seed;
    state->link_up = true;
    state->interrupt_due = UINT64_MAX;
    state->control_due = UINT64_MAX;
    state->raw_due = UINT64_MAX;
    rnic_cost_init(card);
    rnic_pbl_init(card);
    rnic_wire_init(card);
    rnic_fault_plan(card, "", NULL, 0);
    for (unsigned fn = 0; fn < config->functions; fn++) {
        rnic_msix_reset(rnic_fn(card, fn));
    }
    record_card(card);
}

/* --- a saved card --- */

static bool knows_structures(void)
{
    return rnic_layout_state.bytes == sizeof(struct rnic_state) &&
           rnic_layout_fn.bytes == sizeof(struct rnic_fn) && rnic_layout_qp.bytes == sizeof(struct rnic_qp) &&
           rnic_layout_inbound.bytes == sizeof(struct rnic_inbound) &&
           rnic_layout_template.bytes == sizeof(struct rnic_template) &&
           rnic_layout_store.bytes == sizeof(struct rnic_store) &&
           rnic_layout_cq.bytes == sizeof(struct rnic_cq) && rnic_layout_mr.bytes == sizeof(struct rnic_mr) &&
           rnic_layout_listen.bytes == sizeof(struct rnic_listen) &&
           rnic_layout_claim.bytes == sizeof(struct rnic_claim) &&
           rnic_layout_request.bytes == sizeof(struct rnic_request) &&
           rnic_layout_flow.bytes == sizeof(struct rnic_flow);
}

static void swap_numbers(const struct rnic_card *card, const struct rnic_numbers *numbers)
{
    rnic_layout_swap_numbers(rnic_at(card, numbers->links), numbers->limit, sizeof(uint32_t));
    rnic_layout_swap_numbers(rnic_at(card, numbers->owners), numbers->limit, sizeof(uint16_t));
}

/* In ERROR a queue pair has the bytes of a Terminate in place of a receive. */
static void swap_qp(struct rnic_qp *row)
{
    uint8_t terminate[RNIC_TERMINATE_BYTES];
    memcpy(terminate, row->in.bytes, sizeof(terminate));
    rnic_layout_swap(&rnic_layout_qp, row, 1);
    if (row->state == RNIC_QP_STATE_ERROR) {
        memcpy(row->in.bytes, terminate, sizeof(terminate));
    }
}

/* All but the state itself, which is turned around already. */
static void swap_tables(const struct rnic_card *card)
{
    const struct rnic_state *state = rnic_state(card);
    const struct rnic_card_config *config = &state->config;
    uint64_t requests = (uint64_t)config->functions * RNIC_REQUESTS;
    swap_numbers(card, &state->qps);
    swap_numbers(card, &state->cqs);
    swap_numbers(card, &state->mrs);
    swap_numbers(card, &state->listens);
    rnic_layout_swap(&rnic_layout_fn, rnic_fn(card, 0), config->functions);
    for (uint32_t qp = 0; qp < config->qps; qp++) {
        swap_qp(rnic_qp(card, qp));
    }
    rnic_layout_swap(&rnic_layout_inbound, rnic_inbound(card, 0, 0), (uint64_t)config->qps * RNIC_READ_SLOTS);
    rnic_layout_swap(&rnic_layout_template, rnic_template(card, 0, 0),
                     (uint64_t)config->functions * RNIC_AOTF_PAGES);
    rnic_layout_swap(&rnic_layout_store, rnic_store(card, 0, 0),
                     (uint64_t)config->functions * RNIC_AOTF_STORES);
    rnic_layout_swap(&rnic_layout_cq, rnic_cq(card, 0), config->cqs);
    rnic_layout_swap(&rnic_layout_mr, rnic_mr(card, 0), config->stags);
    rnic_layout_swap_numbers(rnic_at(card, state->pbl_rows), config->pbl_entries, sizeof(uint64_t));
    rnic_layout_swap(&rnic_layout_listen, rnic_listen(card, 0), RNIC_LISTENS);
    rnic_layout_swap(&rnic_layout_claim, rnic_claim(card, 0), RNIC_CLAIMS);
    rnic_layout_swap(&rnic_layout_request, rnic_request(card, 0, 0), requests);
    rnic_layout_swap_numbers(rnic_at(card, state->request_links), requests, sizeof(uint32_t));
    rnic_layout_swap(&rnic_layout_flow, rnic_flow(card, 0), config->flows);
    if (rnic_raw_bytes(config) > 0) {
        rnic_layout_swap(&rnic_layout_raw, rnic_raw(card, 0), RNIC_RAW_QPS);
    }
}

/* Whether the area is laid out as this version would do it. */
static bool is_area_of(const struct rnic_state *state, const struct rnic_card_config *config)
{
    char wanted[RNIC_CARD_TEXT];
    char found[RNIC_CARD_TEXT];
    struct rnic_state here = {.config = *config};
    lay_out(&here);
    return rnic_card_describe(config, wanted, sizeof(wanted)) &&
           rnic_card_describe(&state->config, found, sizeof(found)) && strcmp(wanted, found) == 0 &&
           state->efe == here.efe && state->wire_switch == here.wire_switch && state->faults == here.faults &&
           state->qps.links == here.qps.links && state->qp_rows == here.qp_rows &&
           state->raw_rows == here.raw_rows && state->template_rows == here.template_rows &&
           state->store_rows == here.store_rows && state->fns == here.fns;
}

bool rnic_card_continue(struct rnic_card *card, void *area, const struct rnic_card_config *config, bool swaps,
                        const struct rnic_card_host *host, void *context)
{
    *card = (struct rnic_card){.area = area, .host = host, .context = context};
    if (swaps && knows_structures()) {
        rnic_layout_swap(&rnic_layout_state, area, 1);
    }
    if (!is_area_of(rnic_state(card), config)) { /* nor is one that could not be turned around */
        return false;
    }
    if (swaps) {
        swap_tables(card);
    }
    return (!swaps || rnic_fault_swap(card)) && rnic_wire_continue(card, swaps);
}

void rnic_card_give(struct rnic_card *card, unsigned fn, uint8_t *bar2, uint8_t *bar4)
{
    card->bar2[fn] = bar2;
    card->bar4[fn] = bar4;
}

/* --- functions --- */

unsigned rnic_card_functions(const struct rnic_card *card)
{
    return rnic_state(card)->config.functions;
}

uint64_t rnic_card_bar4_bytes(const struct rnic_card_config *config)
{
    uint64_t all = (uint64_t)config->dram_bytes + config->sram_bytes;
    uint64_t bytes = all != 0 ? RNIC_MEMORY_UNIT : 0;
    while (bytes < all) {
        bytes *= 2;
    }
    return bytes;
}

void rnic_card_attach(struct rnic_card *card, unsigned fn, uint8_t *bar2, uint8_t *bar4)
{
    bar4 = rnic_card_bar4_bytes(&rnic_state(card)->config) > 0 ? bar4 : NULL;
    rnic_record(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_ATTACH,
                                                .fn = (uint16_t)fn,
                                                .value = (bar2 != NULL ? 1u : 0) | (bar4 != NULL ? 2u : 0)});
    rnic_reset_whole(card, fn);
    card->bar2[fn] = bar2;
    card->bar4[fn] = bar4;
}

void rnic_card_detach(struct rnic_card *card, unsigned fn)
{
    rnic_record(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_DETACH, .fn = (uint16_t)fn});
    rnic_reset_whole(card, fn);
    card->bar2[fn] = NULL;
    card->bar4[fn] = NULL;
}

void rnic_card_link(struct rnic_card *card, bool up)
{
    rnic_record(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_LINK, .value = up});
    rnic_event_link(card, up);
}

static void record_text(struct rnic_card *card, enum rnic_transaction_kind kind, const char *text)
{
    uint32_t bytes = (uint32_t)strlen(text);
    rnic_record(card,
                (struct rnic_transaction){.kind = kind, .bytes = bytes, .data = bytes == 0 ? NULL : text});
}

bool rnic_card_faults(struct rnic_card *card, const char *text, char *error, size_t error_bytes)
{
    record_text(card, RNIC_TRANSACTION_FAULTS, text);
    return rnic_fault_plan(card, text, error, error_bytes);
}

bool rnic_card_impair(struct rnic_card *card, const char *text, char *error, size_t error_bytes)
{
    struct rnic_impair_config impair;
    record_text(card, RNIC_TRANSACTION_IMPAIR, text);
    if (!rnic_impair_parse(text, &impair, error, error_bytes)) {
        return false;
    }
    rnic_wire_impair(card, &impair);
    return true;
}

/* --- configuration space and BARs --- */

uint32_t rnic_card_config_read(struct rnic_card *card, unsigned fn, uint32_t offset, unsigned bytes)
{
    return rnic_config_read(card, fn, offset, bytes);
}

void rnic_card_config_write(struct rnic_card *card, unsigned fn, uint32_t offset, unsigned bytes,
                            uint32_t value)
{
    if (rnic_config_write(card, fn, offset, bytes, value)) {
        rnic_reset_whole(card, fn);
    }
}

/* Bytes of BAR0 are those of its words. */
static uint64_t read_control(struct rnic_card *card, unsigned fn, uint64_t offset, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes && offset < RNIC_BAR0_BYTES - i; i++) {
        uint32_t at = (uint32_t)offset + i;
        value |= (uint64_t)(rnic_control_read(card, fn, at & ~3u) >> 8 * (at % 4) & 0xFF) << 8 * i;
    }
    return value;
}

uint64_t rnic_card_bar_read(struct rnic_card *card, unsigned fn, unsigned bar, uint64_t offset,
                            unsigned bytes)
{
    struct rnic_state *state = rnic_state(card);
    state->removed = state->removed || rnic_fault_strikes(card, fn, RNIC_FAULT_REMOVED);
    bytes = bytes <= 8 ? bytes : 8;
    uint64_t value = 0;
    if (state->removed) {
        value = bytes < 8 ? (UINT64_C(1) << 8 * bytes) - 1 : UINT64_MAX;
    } else if (bar == 0) {
        rnic_wire_count(card);
        value = read_control(card, fn, offset, bytes);
    } else if (bar == 2) {
        value = rnic_doorbell_bus_read(card, fn, offset, bytes);
    } else if (bar == 4) {
        value = rnic_devmem_bus_read(card, fn, offset, bytes);
    }
    rnic_transact(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_REGISTER_READ,
                                                  .fn = (uint16_t)fn,
                                                  .bar = (uint8_t)bar,
                                                  .address = offset,
                                                  .value = value,
                                                  .bytes = bytes});
    return value;
}

bool rnic_card_has_lost(const struct rnic_card *card, unsigned fn)
{
    return rnic_state(card)->removed != 0 || rnic_fn(card, fn)->lost != 0;
}

bool rnic_card_has_lost_any(const struct rnic_card *card)
{
    return rnic_state(card)->removed != 0 || rnic_state(card)->lost_fns != 0;
}

uint32_t rnic_card_look(struct rnic_card *card, unsigned fn, uint32_t offset)
{
    if (rnic_state(card)->removed) {
        return UINT32_MAX;
    }
    rnic_wire_count(card);
    return rnic_control_read(card, fn, offset & ~3u);
}

/* BAR0 takes aligned words; of 8 bytes both. */
static void write_control(struct rnic_card *card, unsigned fn, uint64_t offset, unsigned bytes,
                          uint64_t value)
{
    if (offset % 4 != 0 || bytes % 4 != 0) {
        return;
    }
    for (unsigned i = 0; i < bytes && offset < RNIC_BAR0_BYTES - i; i += 4) {
        rnic_control_write(card, fn, (uint32_t)offset + i, (uint32_t)(value >> 8 * i));
    }
}

void rnic_card_bar_write(struct rnic_card *card, unsigned fn, unsigned bar, uint64_t offset, unsigned bytes,
                         uint64_t value)
{
    rnic_transact(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_REGISTER_WRITE,
                                                  .fn = (uint16_t)fn,
                                                  .bar = (uint8_t)bar,
                                                  .address = offset,
                                                  .value = value,
                                                  .bytes = bytes});
    bytes = bytes <= 8 ? bytes : 8;
    if (rnic_state(card)->removed) {
        return;
    }
    if (bar == 0 && rnic_aotf_has(offset)) {
        rnic_aotf_store(card, fn, offset, bytes, value);
    } else if (bar == 0) {
        write_control(card, fn, offset, bytes, value);
    } else if (bar == 2) {
        rnic_doorbell_bus_write(card, fn, offset, bytes, value);
    } else if (bar == 4) {
        rnic_devmem_bus_write(card, fn, offset, bytes, value);
    }
}

/* --- the wire --- */

void rnic_card_receive(struct rnic_card *card, const uint8_t *frame, uint32_t bytes)
{
    rnic_record(card,
                (struct rnic_transaction){.kind = RNIC_TRANSACTION_RECEIVE, .bytes = bytes, .data = frame});
    rnic_wire_receive(card, frame, bytes);
}

/* --- time --- */

/* Ends the flows of functions in a catastrophe, and resets the functions that a fault resets. */
static void end_cut_functions(struct rnic_card *card)
{
    struct rnic_state *state = rnic_state(card);
    for (unsigned fn = 0; fn < state->config.functions && state->cut > 0; fn++) {
        struct rnic_fn *f = rnic_fn(card, fn);
        if (f->reset_due) {
            rnic_reset(card, fn);
            f->lost = true;
            state->lost_fns++;
        } else if (f->cut) {
            f->cut = false;
            state->cut--;
            rnic_event_catastrophe(card, fn);
            rnic_interrupt_raise(card, fn, 0);
            rnic_wire_reset(card, fn);
        }
    }
}

/* A step of the send engine, if it is free. */
static uint32_t run_sender(struct rnic_card *card, uint32_t (*step)(struct rnic_card *card, uint32_t most),
                           uint32_t most)
{
    if (!rnic_cost_is_free(card, RNIC_ENGINE_SEND)) {
        return 0;
    }
    rnic_cost_begin(card, RNIC_ENGINE_SEND);
    uint32_t done = step(card, most);
    rnic_cost_end(card);
    return done;
}

/* Operations of the engines that are free now; the others are left for later. */
static uint32_t work(struct rnic_card *card, uint32_t most)
{
    uint32_t done = rnic_wire_advance(card, most);
    done += run_sender(card, rnic_commands_run, most < COMMANDS ? most : COMMANDS);
    done += run_sender(card, rnic_round_robin_run, most);
    end_cut_functions(card);
    return done;
}

/* What is due and is no frame, turn or command. */
static void look_around(struct rnic_card *card)
{
    bool free = rnic_cost_is_free(card, RNIC_ENGINE_RECEIVE);
    rnic_cost_begin(card, RNIC_ENGINE_RECEIVE);
    rnic_cq_advance(card);
    rnic_scan(card);
    if (free) {
        rnic_wire_retry(card);
    }
    rnic_interrupt_advance(card);
    rnic_qp_advance(card);
    rnic_raw_advance(card);
    rnic_cost_end(card);
}

void rnic_card_advance(struct rnic_card *card, uint64_t now)
{
    struct rnic_state *state = rnic_state(card);
    uint32_t done = 0;
    uint32_t part_done = 1;
    rnic_record(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_ADVANCE, .value = now});
    state->now = now > state->now ? now : state->now;
    state->advances++;
    state->kick = false;
    if (state->removed) {
        return;
    }
    rnic_fault_advance(card);
    if (rnic_fault_link_returns(card)) {
        rnic_event_link(card, true);
    }
    look_around(card);
    while (part_done > 0 && done < RNIC_BUDGET) {
        part_done = work(card, state->config.simulated ? 1 : RNIC_BUDGET - done);
        done += part_done;
    }
    state->kick = state->kick || part_done > 0;
}

static uint64_t min_deadline(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t rnic_card_deadline(const struct rnic_card *card)
{
    const struct rnic_state *state = rnic_state(card);
    if (state->removed) {
        return UINT64_MAX;
    }
    bool sends = rnic_schedule_any(card) && rnic_cost_is_free(card, RNIC_ENGINE_SEND);
    uint64_t due = state->kick || sends ? 0 : state->interrupt_due;
    due = min_deadline(due, rnic_cost_deadline(card));
    due = min_deadline(due, state->control_due);
    due = min_deadline(due, state->raw_due);
    due = min_deadline(due, rnic_wire_deadline(card));
    due = min_deadline(due, rnic_qp_deadline(card));
    due = min_deadline(due, rnic_fault_deadline(card));
    return due < state->now ? state->now : due;
}

uint64_t rnic_card_now(const struct rnic_card *card)
{
    return rnic_cost_now(card);
}

bool rnic_card_sleep(struct rnic_card *card)
{
    struct rnic_state *state = rnic_state(card);
    rnic_record(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_TRY_SLEEP});
    if (rnic_card_deadline(card) <= state->now) {
        return false;
    }
    rnic_scan_asleep(card, true);
    if (rnic_scan_any(card)) {
        rnic_scan_asleep(card, false);
        return false;
    }
    state->sleeping = true;
    rnic_transact(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_SLEEP, .value = 1});
    return true;
}

void rnic_card_wake(struct rnic_card *card)
{
    struct rnic_state *state = rnic_state(card);
    if (state->sleeping) {
        state->sleeping = false;
        rnic_scan_asleep(card, false);
        rnic_transact(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_SLEEP});
    }
}
