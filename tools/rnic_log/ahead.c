/* SPDX-License-Identifier: MIT */
#include "ahead.h"

#include <stdlib.h>
#include <string.h>

enum { AHEAD_BYTES = 64 * 1024 * 1024 }; /* of their data, roughly at most */

/* A store that has the card do something when it looks there: a `doorbell` of the log says when,
 * and what. */
static bool is_doorbell(const struct rnic_transaction *c)
{
    const uint64_t each = 64; /* bytes of a queue's doorbells */

    if (c->kind != RNIC_TRANSACTION_DOORBELL && c->bar != 2) {
        return false;
    }
    if (c->address >= RNIC_DB_QP && c->address < RNIC_DB_CQ) {
        return c->address % each == RNIC_QPDB_SQ;
    }
    if (c->address >= RNIC_DB_CQ && c->address < RNIC_DB_WINDOWS) {
        return c->address % each == RNIC_CQDB_ARM;
    }
    return c->address == RNIC_DB_COMMAND_PRODUCER;
}

static bool is_act(const struct ahead_record *record)
{
    switch (record->c.kind) {
    case RNIC_TRANSACTION_REGISTER_WRITE:
        return !is_doorbell(&record->c);
    case RNIC_TRANSACTION_DOORBELL:
        return is_doorbell(&record->c);
    case RNIC_TRANSACTION_CONFIG_READ:
    case RNIC_TRANSACTION_CONFIG_WRITE:
    case RNIC_TRANSACTION_REGISTER_READ:
    case RNIC_TRANSACTION_FAULTS:
    case RNIC_TRANSACTION_ATTACH:
    case RNIC_TRANSACTION_DETACH:
    case RNIC_TRANSACTION_RECEIVE:
    case RNIC_TRANSACTION_LOAD:
        return true;
    default:
        return false;
    }
}

static bool is_dma(const struct ahead_record *record, enum rnic_transaction_kind kind, unsigned fn)
{
    return record->c.kind == kind && record->c.fn == fn && record->c.data != NULL;
}

static bool is_of_card(const struct ahead_record *record)
{
    return record->c.kind == RNIC_TRANSACTION_INTERRUPT || record->c.kind == RNIC_TRANSACTION_DMA_READ ||
           record->c.kind == RNIC_TRANSACTION_DMA_WRITE;
}

/* What the card reads is its own affair, as long as it is there. A write that was refused did
 * nothing. */
static bool is_missing(const struct ahead_record *record)
{
    if (record->c.kind == RNIC_TRANSACTION_DMA_WRITE) {
        return !record->c.failed && record->c.data != NULL && record->done < record->c.bytes;
    }
    return record->c.kind == RNIC_TRANSACTION_INTERRUPT && record->done == 0;
}

/* --- the ring --- */

static struct ahead_record *record_at(const struct ahead *a, size_t i)
{
    return &a->ring[(a->begin + i) % AHEAD_RECORDS];
}

/* The place of the next act; `count` if none is read. */
static size_t next_act(const struct ahead *a)
{
    size_t i = 0;

    while (i < a->count && !is_act(record_at(a, i))) {
        i++;
    }
    return i;
}

static bool keep(struct ahead *a, const struct rnic_transaction *c)
{
    struct ahead_record *record = record_at(a, a->count);
    uint8_t *data = c->data == NULL ? NULL : malloc(c->bytes == 0 ? 1 : c->bytes);

    if (c->data != NULL && data == NULL) {
        return false;
    }
    if (data != NULL) {
        memcpy(data, c->data, c->bytes);
        a->bytes += c->bytes;
    }
    *record = (struct ahead_record){.c = *c, .number = a->read};
    record->c.data = data;
    a->count++;
    return true;
}

static void read_on(struct ahead *a)
{
    while (!a->is_over && a->count < AHEAD_RECORDS && (a->count == 0 || a->bytes < AHEAD_BYTES)) {
        struct rnic_transaction c;
        bool is_one = log_read_next(a->reader, &c) == LOG_GOT_ONE;
        if (!is_one || (!select_wants(a->selection, &c, NULL) && a->selection->over)) {
            a->is_over = true;
            return;
        }
        a->read++;
        const struct ahead_record record = {.c = c};
        if ((is_act(&record) || is_of_card(&record)) && !keep(a, &c)) {
            a->is_over = a->is_out = true;
        }
    }
}

/* Puts a DMA into the memory. A card that is slower finds there what it has not read yet. */
static bool remember(struct ahead *a, const struct ahead_record *record)
{
    const struct rnic_transaction *c = &record->c;
    bool is_read = c->kind == RNIC_TRANSACTION_DMA_READ;

    if (c->failed || c->data == NULL || !(is_read || c->kind == RNIC_TRANSACTION_DMA_WRITE)) {
        return true;
    }
    uint32_t done = is_read ? record->done : c->bytes;
    return image_put(&a->memory, c->fn, c->address, c->data, done, IMAGE_KNOWN) &&
           image_put(&a->memory, c->fn, c->address + done, (const uint8_t *)c->data + done, c->bytes - done,
                     IMAGE_UNREAD);
}

static void pass_one(struct ahead *a)
{
    struct ahead_record *record = record_at(a, 0);

    a->is_out = !remember(a, record) || a->is_out;
    if (record->c.data != NULL) {
        a->bytes -= record->c.bytes;
        free((void *)record->c.data);
    }
    a->begin = (a->begin + 1) % AHEAD_RECORDS;
    a->count--;
}

void ahead_pass(struct ahead *ahead)
{
    for (size_t i = next_act(ahead) + 1; i > 0 && ahead->count > 0; i--) {
        pass_one(ahead);
    }
}

/* Whether the card has made this interrupt before. */
static bool was_early(struct ahead *a, struct ahead_record *record)
{
    const struct rnic_transaction *c = &record->c;
    bool is_vector =
        c->kind == RNIC_TRANSACTION_INTERRUPT && c->fn < RNIC_CARD_MAX_FUNCTIONS && c->value < RNIC_VECTORS;

    if (is_vector && a->early[c->fn][c->value] > 0) {
        a->early[c->fn][c->value]--;
        record->done = 1;
    }
    return record->done > 0 && is_vector;
}

struct ahead_record *ahead_act(struct ahead *ahead, const struct ahead_record **missing)
{
    *missing = NULL;
    read_on(ahead);
    for (size_t i = 0; i < ahead->count; i++) {
        struct ahead_record *record = record_at(ahead, i);
        if (is_act(record)) {
            return record;
        }
        if (is_missing(record) && !was_early(ahead, record)) {
            *missing = record;
            break;
        }
    }
    /* so much between two acts that it cannot be kept until the second one */
    while (next_act(ahead) == ahead->count && !ahead->is_over && !is_missing(record_at(ahead, 0))) {
        pass_one(ahead);
        read_on(ahead);
    }
    return NULL;
}

unsigned ahead_turn(const struct ahead *ahead, const bool of[RNIC_CARD_MAX_FUNCTIONS])
{
    for (size_t i = 0; i < ahead->count && !is_act(record_at(ahead, i)); i++) {
        const struct ahead_record *record = record_at(ahead, i);
        if (record->c.fn < RNIC_CARD_MAX_FUNCTIONS && of[record->c.fn]) {
            return record->c.fn;
        }
        if (is_missing(record)) {
            break;
        }
    }
    return RNIC_CARD_MAX_FUNCTIONS;
}

bool ahead_is_over(const struct ahead *ahead)
{
    return ahead->is_over && next_act(ahead) == ahead->count;
}

const struct ahead_record *ahead_second_act(const struct ahead *ahead)
{
    for (size_t i = next_act(ahead) + 1; i < ahead->count; i++) {
        if (is_act(record_at(ahead, i))) {
            return record_at(ahead, i);
        }
    }
    return NULL;
}

/* --- what the card does --- */

/* A DMA_READ of the card: where it is, and what of it is known. */
struct wanted {
    uint64_t address;
    uint32_t bytes;
    uint8_t *out;
    bool *is_known;
};

/* Takes the bytes that are not known yet from those of a record from `from` up to `to`. Returns
 * true if there were some. */
static bool take(const struct wanted *w, const struct ahead_record *record, uint32_t from, uint32_t to)
{
    const uint8_t *data = record->c.data;
    bool took = false;

    for (uint32_t i = 0; i < w->bytes; i++) {
        uint64_t at = w->address + i - record->c.address; /* enormous, if it is before the record */
        if (!w->is_known[i] && at >= from && at < to) {
            w->out[i] = data[at];
            w->is_known[i] = took = true;
        }
    }
    return took;
}

/* Takes what a record has from an offset on: the card has read it now. */
static void take_next(const struct wanted *w, struct ahead_record *record, uint32_t from)
{
    uint64_t end = w->address + w->bytes - record->c.address;

    if (take(w, record, from, record->c.bytes) && end > record->done) {
        record->done = end < record->c.bytes ? (uint32_t)end : record->c.bytes;
    }
}

static bool is_all_known(const struct wanted *w)
{
    return memchr(w->is_known, 0, w->bytes) == NULL;
}

static bool is_refused(const struct ahead *a, unsigned fn, const struct wanted *w, size_t end)
{
    for (size_t i = 0; i < end; i++) {
        const struct ahead_record *record = record_at(a, i);
        if (record->c.kind == RNIC_TRANSACTION_DMA_READ && record->c.fn == fn && record->c.failed &&
            record->c.address - w->address < w->bytes) {
            return true;
        }
    }
    return false;
}

/* What the card has read or written of these records, is there still. */
static void take_again(const struct ahead *a, unsigned fn, const struct wanted *w, size_t begin, size_t end)
{
    for (size_t i = end; i > begin && !is_all_known(w); i--) {
        const struct ahead_record *record = record_at(a, i - 1);
        if (is_dma(record, RNIC_TRANSACTION_DMA_READ, fn) || is_dma(record, RNIC_TRANSACTION_DMA_WRITE, fn)) {
            (void)take(w, record, 0, record->done);
        }
    }
}

/* First comes what the card has not read yet of what the log's card had read; then what that one
 * reads up to the next act, once, and what the card had from there. A card that is faster finds
 * what the log's card found later, which is there until the host does something. The rest is as it
 * was. */
static void find(struct ahead *a, unsigned fn, const struct wanted *w, size_t act)
{
    image_get(&a->memory, fn, w->address, w->out, w->is_known, w->bytes, IMAGE_UNREAD);
    for (size_t i = 0; i < act; i++) {
        if (is_dma(record_at(a, i), RNIC_TRANSACTION_DMA_READ, fn)) {
            take_next(w, record_at(a, i), record_at(a, i)->done);
        }
    }
    take_again(a, fn, w, 0, act);
    for (size_t i = act; i < a->count && !is_all_known(w); i++) {
        if (is_dma(record_at(a, i), RNIC_TRANSACTION_DMA_READ, fn)) {
            take_next(w, record_at(a, i), 0);
        }
    }
    take_again(a, fn, w, act, a->count);
    image_get(&a->memory, fn, w->address, w->out, w->is_known, w->bytes, IMAGE_KNOWN);
}

bool ahead_read(struct ahead *ahead, unsigned fn, uint64_t address, uint8_t *out, uint32_t bytes,
                bool *is_refused_there)
{
    bool *is_known = calloc(bytes, sizeof(bool));
    const struct wanted wanted = {address, bytes, out, is_known};
    bool is_there;

    *is_refused_there = false;
    if (is_known == NULL) {
        ahead->is_out = true;
        return false;
    }
    size_t act = next_act(ahead);
    *is_refused_there = is_refused(ahead, fn, &wanted, act);
    find(ahead, fn, &wanted, act);
    is_there = is_all_known(&wanted);
    free(is_known);
    return is_there;
}

static bool overlaps(const struct ahead_record *record, uint64_t address, uint32_t bytes)
{
    uint64_t begin = record->c.address + record->done;
    uint32_t rest = record->c.bytes - record->done;
    return address - begin < rest || begin - address < bytes;
}

/* The first write that the card still has to do in this place. *is_first: before all others. */
static struct ahead_record *write_at(const struct ahead *a, unsigned fn, uint64_t address, uint32_t bytes,
                                     const struct ahead_record **first)
{
    *first = NULL;
    for (size_t i = 0; i < a->count; i++) {
        struct ahead_record *record = record_at(a, i);
        if (!is_dma(record, RNIC_TRANSACTION_DMA_WRITE, fn) || !is_missing(record)) {
            continue;
        }
        *first = *first == NULL ? record : *first;
        if (overlaps(record, address, bytes)) {
            return record;
        }
    }
    return NULL;
}

bool ahead_write(struct ahead *ahead, unsigned fn, uint64_t address, const uint8_t *data, uint32_t bytes,
                 const struct ahead_record **other)
{
    while (bytes > 0) {
        const struct ahead_record *first;
        struct ahead_record *record = write_at(ahead, fn, address, bytes, &first);
        if (record == NULL || record->c.address + record->done != address) {
            *other = record;
            return false;
        }
        uint32_t rest = record->c.bytes - record->done;
        uint32_t part = bytes < rest ? bytes : rest;
        if (memcmp((const uint8_t *)record->c.data + record->done, data, part) != 0) {
            *other = record;
            return false;
        }
        ahead->reordered += record != first ? 1 : 0;
        record->done += part;
        address += part;
        data += part;
        bytes -= part;
    }
    return true;
}

/* One interrupt for several of the log's is enough, and so is one that comes earlier, but not
 * before the write that the log has before it. */
bool ahead_interrupt(struct ahead *ahead, unsigned fn, uint64_t vector)
{
    bool is_next = true;    /* no act is before it */
    bool is_written = true; /* what the log's card has written last */
    unsigned found = 0;

    for (size_t i = 0; i < ahead->count && (is_next || found == 0); i++) {
        struct ahead_record *record = record_at(ahead, i);
        is_next = is_next && !is_act(record);
        if (is_dma(record, RNIC_TRANSACTION_DMA_WRITE, fn)) {
            is_written = !is_missing(record);
        }
        if (is_written && record->c.fn == fn && record->c.kind == RNIC_TRANSACTION_INTERRUPT &&
            record->c.value == vector && record->done == 0) {
            record->done = 1;
            found++;
        }
    }
    if (found == 0 && vector < RNIC_VECTORS) {
        ahead->early[fn][vector]++;
        ahead->all_early++;
    }
    return vector < RNIC_VECTORS;
}

/* --- beginning and end --- */

bool ahead_begin(struct ahead *ahead, struct log_reader *reader, struct selection *selection)
{
    *ahead = (struct ahead){.reader = reader, .selection = selection};
    ahead->ring = calloc(AHEAD_RECORDS, sizeof(struct ahead_record));
    return ahead->ring != NULL;
}

void ahead_end(struct ahead *ahead)
{
    for (size_t i = 0; i < ahead->count; i++) {
        free((void *)record_at(ahead, i)->c.data);
    }
    free(ahead->ring);
    image_end(&ahead->memory);
}
