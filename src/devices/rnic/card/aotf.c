/* SPDX-License-Identifier: MIT */
/*
 * AOTF. A store is given its queue pair and its target when the bus brings it, by the template that
 * its page has then, and waits in the function's FIFO. Only the oldest store of a function is sent:
 * it gives its queue pair something to send, in turn with what the queue pair has besides, and the
 * next one gives its own queue pair something when that one has left. So stores leave in their
 * order, whatever their queue pairs are, and one that cannot be sent now holds back those behind
 * it.
 *
 * A store is over when its frame was made or when it was dropped; AOTF_DONE counts both, because it
 * tells the driver how many places of the FIFO are free.
 */
#include "devices/rnic/card/aotf.h"

#include "devices/rnic/card/cost.h"
#include "devices/rnic/card/doorbell.h"
#include "devices/rnic/card/error.h"
#include "devices/rnic/card/faults.h"
#include "devices/rnic/card/flow.h"
#include "devices/rnic/card/numbers.h"
#include "devices/rnic/card/request.h"
#include "iwarp/rdmap.h"

enum { HAS_TEMPLATE = 0, HAS_NONE = 1 /* OBJECT_KIND of SET_TEMPLATE */ };

/* --- templates --- */

static void clear_template(struct rnic_card *card, unsigned fn, uint32_t page)
{
    struct rnic_template *template = rnic_template(card, fn, page);
    if (template->qp != 0) {
        rnic_qp(card, template->qp - 1)->templates--;
        *template = (struct rnic_template){0};
    }
}

uint16_t rnic_aotf_set_template(struct rnic_card *card, struct rnic_command *command)
{
    uint16_t kind = rnic_command16(command, RNIC_CMD_OBJECT_KIND);
    uint16_t page = rnic_command16(command, RNIC_CMD_TEMPLATE_PAGE);
    uint64_t address = rnic_command64(command, RNIC_CMD_TEMPLATE_REMOTE_ADDRESS);
    if (kind > HAS_NONE || page >= RNIC_AOTF_PAGES || address > UINT64_MAX - RNIC_AOTF_PAGE_BYTES + 1) {
        return RNIC_STATUS_INVALID;
    }
    if (kind == HAS_NONE) {
        clear_template(card, command->fn, page);
        return RNIC_STATUS_OK;
    }
    if (!rnic_numbers_owns(card, &rnic_state(card)->qps, command->fn, command->object)) {
        return RNIC_STATUS_NO_OBJECT;
    }
    struct rnic_qp *row = rnic_qp(card, command->object);
    if (row->level == RNIC_LEVEL_RAW) {
        return RNIC_STATUS_INVALID;
    }
    clear_template(card, command->fn, page);
    row->templates++;
    *rnic_template(card, command->fn, page) =
        (struct rnic_template){.address = address,
                               .stag = rnic_command32(command, RNIC_CMD_TEMPLATE_REMOTE_STAG),
                               .qp = command->object + 1};
    return RNIC_STATUS_OK;
}

/* --- the FIFO --- */

static struct rnic_store *store_at(const struct rnic_card *card, unsigned fn, uint32_t place)
{
    return rnic_store(card, fn, rnic_fn(card, fn)->first_store + place);
}

/* That number of stores is over. */
static void count_done(struct rnic_card *card, unsigned fn, uint32_t stores)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    f->aotf_done += stores;
    rnic_doorbell_store(card, fn, RNIC_DB_AOTF_DONE, f->aotf_done);
}

/* The oldest store is to be sent. */
static void schedule_oldest(struct rnic_card *card, unsigned fn)
{
    if (rnic_fn(card, fn)->stores > 0) {
        rnic_schedule(card, store_at(card, fn, 0)->qp);
    }
}

static void append(struct rnic_card *card, unsigned fn, const struct rnic_store *store)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    *store_at(card, fn, f->stores++) = *store;
    rnic_qp(card, store->qp)->stores++;
    if (f->stores == 1) {
        schedule_oldest(card, fn);
        rnic_state(card)->kick = true;
    }
}

static void take_oldest(struct rnic_card *card, unsigned fn)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    rnic_qp(card, store_at(card, fn, 0)->qp)->stores--;
    f->first_store = (uint8_t)((f->first_store + 1) % RNIC_AOTF_STORES);
    f->stores--;
    count_done(card, fn, 1);
    schedule_oldest(card, fn);
}

void rnic_aotf_drop(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    struct rnic_fn *f = rnic_fn(card, row->fn);
    uint32_t dropped = row->stores;
    uint8_t kept = 0;
    if (dropped == 0) {
        return;
    }
    for (uint8_t i = 0; i < f->stores; i++) {
        const struct rnic_store *store = store_at(card, row->fn, i);
        if (store->qp != qp) {
            *store_at(card, row->fn, kept++) = *store;
        }
    }
    f->stores = kept;
    row->stores = 0;
    rnic_count(card, row->fn, RNIC_COUNT_AOTF_DROPPED, dropped);
    count_done(card, row->fn, dropped);
    schedule_oldest(card, row->fn);
}

void rnic_aotf_release(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    rnic_aotf_drop(card, qp);
    for (uint32_t page = 0; row->templates > 0 && page < RNIC_AOTF_PAGES; page++) {
        if (rnic_template(card, row->fn, page)->qp == qp + 1) {
            clear_template(card, row->fn, page);
        }
    }
}

/* --- from the bus --- */

static void drop_one(struct rnic_card *card, unsigned fn, enum rnic_counter counter)
{
    rnic_count(card, fn, counter, 1);
    count_done(card, fn, 1);
}

/* As a processor stores: a power of two of bytes, aligned. So it lies in one page. */
static bool is_aligned_store(uint64_t offset, unsigned bytes)
{
    return (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) && offset % bytes == 0;
}

void rnic_aotf_store(struct rnic_card *card, unsigned fn, uint64_t offset, unsigned bytes, uint64_t value)
{
    if (!rnic_works(card, fn)) {
        return;
    }
    uint64_t at = offset - RNIC_REG_AOTF;
    struct rnic_template template = *rnic_template(card, fn, at / RNIC_AOTF_PAGE_BYTES);
    if (template.qp == 0 || !is_aligned_store(at, bytes)) {
        rnic_error_log(card, fn, RNIC_ERROR_AOTF_STORE, 0, offset);
        drop_one(card, fn, RNIC_COUNT_AOTF_DROPPED);
        return;
    }
    struct rnic_store store = {.address = template.address + at % RNIC_AOTF_PAGE_BYTES,
                               .stag = template.stag,
                               .qp = template.qp - 1,
                               .bytes = (uint8_t)bytes};
    if (rnic_qp(card, store.qp)->state != RNIC_QP_STATE_CONNECTED) {
        drop_one(card, fn, RNIC_COUNT_AOTF_DROPPED);
        return;
    }
    if (rnic_fn(card, fn)->stores == RNIC_AOTF_STORES || rnic_fault_strikes(card, fn, RNIC_FAULT_AOTF_FULL)) {
        rnic_error_log(card, fn, RNIC_ERROR_AOTF_OVERRUN, store.qp, offset);
        drop_one(card, fn, RNIC_COUNT_AOTF_OVERRUN);
        return;
    }
    for (unsigned i = 0; i < bytes; i++) {
        store.data[i] = (uint8_t)(value >> 8 * i);
    }
    append(card, fn, &store);
}

/* --- to the wire --- */

/* Messages of a queue pair are sent whole. Nothing is begun behind an entry that has failed. */
static bool may_begin(const struct rnic_card *card, uint32_t qp)
{
    const struct rnic_request *request = rnic_request_current(card, qp);
    return !rnic_qp(card, qp)->halted && (request == NULL || !request->begun);
}

static void make_frame(struct rnic_card *card, struct rnic_qp *row, const struct rnic_store *store,
                       uint8_t *payload)
{
    struct vipl_ddp ddp = {
        .tagged = true, .last = true, .op = VIPL_RDMAP_WRITE, .stag = store->stag, .offset = store->address};
    struct efe_send send = {.type = EFE_DATA,
                            .flags = EFE_FIRST | EFE_LAST,
                            .to_qp = row->peer_qp,
                            .from_qp = (uint16_t)store->qp,
                            .left = store->bytes,
                            .message = row->message++};
    vipl_ddp_write(payload, &ddp);
    for (unsigned i = 0; i < store->bytes; i++) {
        payload[VIPL_DDP_TAGGED_BYTES + i] = store->data[i];
    }
    rnic_flow_commit(card, row->fn, row->flow - 1, &send, VIPL_DDP_TAGGED_BYTES + store->bytes, 0);
}

enum rnic_turn rnic_aotf_turn(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    unsigned fn = row->fn;
    if (row->stores == 0 || store_at(card, fn, 0)->qp != qp || !may_begin(card, qp)) {
        return RNIC_TURN_IDLE;
    }
    uint8_t *payload = rnic_flow_reserve(card, row->flow - 1);
    if (payload == NULL) {
        return RNIC_TURN_BLOCKED;
    }
    rnic_cost_stored(card, fn);
    make_frame(card, row, store_at(card, fn, 0), payload);
    take_oldest(card, fn);
    return RNIC_TURN_SENT;
}
