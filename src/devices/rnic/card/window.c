/* SPDX-License-Identifier: MIT */
/*
 * Windows. A window is a page of BAR2 with slots; an entry of the send queue may stand, with its
 * payload, in the slot of its index, as well as in the ring. The driver may store to a slot at any
 * time, also before the card has looked at the entry there before. So each slot has the entry's
 * index twice, stored first and stored last, and the card believes a copy only if both were the
 * entry's before and after it was made. All stores and loads are of words; those of the driver are
 * release stores and those of the card acquire loads, which keeps each side's in order.
 *
 * What the card finds here is checked as an entry of the ring is. A driver whose window differs
 * from its ring gets what the window says.
 */
#include "devices/rnic/card/window.h"

#include <string.h>

#include "devices/rnic/card/faults.h"
#include "devices/rnic/card/numbers.h"
#include "devices/rnic/card/record.h"
#include "rnic/entry.h"

enum { WORD = 4, BITS = 64, FLAGS = RNIC_WORK_FLAG_IMMEDIATE | RNIC_WORK_FLAG_FENCE };

/* --- who has which window --- */

static void clear_indices(const struct rnic_card *card, unsigned fn, uint32_t window)
{
    static const uint32_t none = 0;
    uint8_t *bar2 = card->bar2[fn];
    size_t page = RNIC_DB_WINDOWS + (size_t)window * RNIC_WINDOW_BYTES;
    for (unsigned i = 0; i < RNIC_WINDOW_SLOTS; i++) {
        size_t slot = page + (size_t)i * RNIC_WINDOW_SLOT_BYTES;
        __atomic_store_n((uint32_t *)(void *)(bar2 + slot + RNIC_WINDOW_BEGIN), none, __ATOMIC_RELEASE);
        __atomic_store_n((uint32_t *)(void *)(bar2 + slot + RNIC_WINDOW_END), none, __ATOMIC_RELEASE);
        rnic_stored(card, fn, 2, slot + RNIC_WINDOW_BEGIN, &none, sizeof(none));
        rnic_stored(card, fn, 2, slot + RNIC_WINDOW_END, &none, sizeof(none));
    }
}

static bool take_window(struct rnic_fn *f, uint32_t *out)
{
    for (uint32_t i = 0; i < RNIC_WINDOWS; i++) {
        uint64_t bit = UINT64_C(1) << i % BITS;
        if ((f->windows[i / BITS] & bit) == 0) {
            f->windows[i / BITS] |= bit;
            *out = i;
            return true;
        }
    }
    return false;
}

/* A queue pair that has a window keeps it. */
uint16_t rnic_window_assign(struct rnic_card *card, struct rnic_command *command)
{
    uint32_t window;
    if (!rnic_numbers_owns(card, &rnic_state(card)->qps, command->fn, command->object)) {
        return RNIC_STATUS_NO_OBJECT;
    }
    struct rnic_qp *row = rnic_qp(card, command->object);
    if (row->level == RNIC_LEVEL_RAW) {
        return RNIC_STATUS_INVALID;
    }
    if (row->window == 0) {
        if (!take_window(rnic_fn(card, command->fn), &window)) {
            return RNIC_STATUS_NO_ROOM;
        }
        row->window = (uint16_t)(window + 1);
        if (card->bar2[command->fn] != NULL) { /* what a queue pair before has left would match */
            clear_indices(card, command->fn, window);
        }
    }
    command->answer.info = row->window - 1u;
    return RNIC_STATUS_OK;
}

void rnic_window_release(struct rnic_card *card, uint32_t qp)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    if (row->window != 0) {
        uint32_t window = row->window - 1u;
        rnic_fn(card, row->fn)->windows[window / BITS] &= ~(UINT64_C(1) << window % BITS);
        row->window = 0;
    }
}

/* --- what is in a slot --- */

/* The slot of the entry before the index; NULL: it has none. Index 0 is never in a slot. */
static const uint8_t *window_slot(const struct rnic_card *card, const struct rnic_qp *row, uint32_t behind)
{
    const uint8_t *bar2 = card->bar2[row->fn];
    if (row->window == 0 || behind == 0 || bar2 == NULL) {
        return NULL;
    }
    return bar2 + RNIC_DB_WINDOWS + (size_t)(row->window - 1u) * RNIC_WINDOW_BYTES +
           (size_t)((behind - 1) % RNIC_WINDOW_SLOTS) * RNIC_WINDOW_SLOT_BYTES;
}

/* Pairs with the driver's release store of the same word, as all loads of a slot. */
static uint32_t load_word(const uint8_t *at)
{
    return __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_ACQUIRE);
}

static uint32_t load_index(const struct rnic_card *card, unsigned fn, const uint8_t *at)
{
    uint32_t word = load_word(at);
    uint8_t bytes[WORD];
    memcpy(bytes, &word, sizeof(bytes));
    rnic_loaded(card, fn, 2, (uint64_t)(at - card->bar2[fn]), bytes, sizeof(bytes));
    return rnic_get32(bytes, rnic_fn(card, fn)->big != 0);
}

static void copy_words(uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    uint32_t done = 0;
    for (; bytes - done >= WORD; done += WORD) {
        uint32_t word = load_word(from + done);
        memcpy(to + done, &word, WORD);
    }
    if (done < bytes) {
        uint32_t word = load_word(from + done);
        memcpy(to + done, &word, bytes - done);
    }
}

/* Copies a part of a slot. Returns false if the slot did not have this entry all the time. */
static bool copy_part(struct rnic_card *card, unsigned fn, const uint8_t *slot, uint32_t behind, uint32_t at,
                      uint8_t *out, uint32_t bytes)
{
    if (load_index(card, fn, slot + RNIC_WINDOW_END) != behind ||
        rnic_fault_strikes(card, fn, RNIC_FAULT_WINDOW_LOST)) {
        return false;
    }
    copy_words(out, slot + at, bytes);
    rnic_loaded(card, fn, 2, (uint64_t)(slot + at - card->bar2[fn]), out, bytes);
    return load_index(card, fn, slot + RNIC_WINDOW_BEGIN) == behind;
}

static void tell(struct rnic_card *card, unsigned fn, const uint8_t *at, uint32_t behind, const uint8_t *data,
                 uint32_t bytes)
{
    rnic_transact(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_WINDOW,
                                                  .fn = (uint16_t)fn,
                                                  .bar = 2,
                                                  .address = (uint64_t)(at - card->bar2[fn]),
                                                  .value = behind,
                                                  .bytes = bytes,
                                                  .data = data});
}

static void read_header(const uint8_t *header, bool big, struct rnic_work *work)
{
    *work = (struct rnic_work){.opcode = header[RNIC_WINDOW_OPCODE],
                               .flags = header[RNIC_WINDOW_FLAGS],
                               .segments = 1,
                               .cookie = rnic_get32(header + RNIC_WINDOW_COOKIE, big),
                               .immediate = rnic_get32(header + RNIC_WINDOW_IMMEDIATE, big),
                               .length = rnic_get16(header + RNIC_WINDOW_LENGTH, big),
                               .remote_address = rnic_get64(header + RNIC_WINDOW_REMOTE_ADDRESS, big),
                               .remote_stag = rnic_get32(header + RNIC_WINDOW_REMOTE_STAG, big)};
    work->segment[0] = (struct rnic_segment){.address = rnic_get64(header + RNIC_WINDOW_LOCAL_ADDRESS, big),
                                             .length = work->length,
                                             .stag = rnic_get32(header + RNIC_WINDOW_LOCAL_STAG, big)};
}

static bool is_fit(const struct rnic_work *work)
{
    return (work->opcode == RNIC_WORK_SEND || work->opcode == RNIC_WORK_WRITE) &&
           (work->flags & ~FLAGS) == 0 && work->length > 0 && work->length <= RNIC_WINDOW_PAYLOAD;
}

bool rnic_window_fetch(struct rnic_card *card, uint32_t qp, struct rnic_work *work)
{
    struct rnic_qp *row = rnic_qp(card, qp);
    uint8_t header[RNIC_WINDOW_HEADER];
    uint32_t behind = row->sq.next + 1;
    const uint8_t *slot = window_slot(card, row, behind);
    if (slot == NULL || !copy_part(card, row->fn, slot, behind, 0, header, sizeof(header))) {
        return false;
    }
    struct rnic_work found;
    read_header(header, rnic_fn(card, row->fn)->big != 0, &found);
    if (!is_fit(&found)) {
        return false;
    }
    tell(card, row->fn, slot, behind, header, sizeof(header));
    *work = found;
    work->behind = behind;
    row->sq.next = behind;
    return true;
}

bool rnic_window_payload(struct rnic_card *card, uint32_t qp, const struct rnic_work *work, uint8_t *out)
{
    const struct rnic_qp *row = rnic_qp(card, qp);
    const uint8_t *slot = window_slot(card, row, work->behind);
    if (slot == NULL ||
        !copy_part(card, row->fn, slot, work->behind, RNIC_WINDOW_HEADER, out, work->length)) {
        return false;
    }
    tell(card, row->fn, slot + RNIC_WINDOW_HEADER, work->behind, out, work->length);
    return true;
}
