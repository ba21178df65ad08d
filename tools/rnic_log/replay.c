/* SPDX-License-Identifier: MIT */
/*
 * A replay. The records of a log are of two kinds: what the card was told (calls, register
 * accesses, frames of the wire), which is done again; and what the card did, which the card has to
 * do again, with the same bytes at the same time. The bytes that the card gets from outside (DMA
 * reads, stores of drivers into its BARs) come from the log.
 *
 * The next record is always in `next`. Whatever the card says is compared with it. The first
 * difference ends the replay: from then on the card's words are not listened to.
 */
#include "replay.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "adapter/log.h"
#include "read.h"
#include "rnic/registers.h"
#include "saved.h"
#include "select.h"
#include "tool_text.h"

struct replay {
    const char *path;
    struct log_reader reader;
    struct selection selection; /* says where to end */
    struct rnic_transaction next;
    uint64_t number; /* of `next`, from 1 on */
    uint64_t loads;  /* of the card since the last record */
    uint64_t advances;
    bool has_next; /* false: the log is at its end, or is over for another reason */
    bool is_past;  /* `next` is behind where the replay is to end, which it does between two calls */
    bool differs;
    struct rnic_card_config config;
    struct rnic_card card;
    size_t bar4_bytes;
    size_t area_bytes;
};

/* --- the log --- */

static void replay_step(struct replay *r)
{
    r->loads = 0;
    r->number++;
    r->has_next = log_read_next(&r->reader, &r->next) == LOG_GOT_ONE;
    r->is_past = r->has_next && !select_wants(&r->selection, &r->next, NULL) && r->selection.over;
    if (r->selection.options->save == NULL) {
        r->has_next = r->has_next && !r->is_past;
    }
}

static void print_record(const char *who, const struct rnic_transaction *record)
{
    struct rnic_log line = {.file = stdout, .is_text = true};

    printf("%s: ", who);
    if (record == NULL) {
        puts("nothing");
    } else {
        rnic_log_write(&line, record);
    }
}

void replay_differs(const char *path, uint64_t number, const struct rnic_transaction *log,
                    const struct rnic_transaction *card)
{
    printf("%s: record %" PRIu64 " differs\n", path, number);
    print_record("log ", log);
    print_record("card", card);
}

/* What the card does, or NULL, is not what the log says. */
static void differ(struct replay *r, const struct rnic_transaction *card)
{
    replay_differs(r->path, r->number, &r->next, card);
    r->differs = true;
    r->has_next = false;
}

static bool is_same(const struct rnic_transaction *a, const struct rnic_transaction *b)
{
    bool head = a->time == b->time && a->kind == b->kind && a->fn == b->fn && a->bar == b->bar &&
                a->failed == b->failed && a->address == b->address && a->value == b->value &&
                a->bytes == b->bytes && (a->data == NULL) == (b->data == NULL);

    return head && (a->data == NULL || a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
}

/* --- the card's callbacks --- */

static void say(void *context, const struct rnic_transaction *card)
{
    struct replay *r = context;

    if (!r->has_next) {
        return;
    }
    if (is_same(&r->next, card)) {
        replay_step(r);
    } else {
        differ(r, card);
    }
}

/* The replay's own memory of a BAR from this offset on, or NULL. */
static uint8_t *bar_at(struct replay *r, unsigned fn, unsigned bar, uint64_t offset, uint32_t bytes)
{
    uint8_t *memory = bar == 2 ? r->card.bar2[fn] : bar == 4 ? r->card.bar4[fn] : NULL;
    size_t all = bar == 2 ? RNIC_BAR2_BYTES : r->bar4_bytes;

    return memory != NULL && bytes <= all && offset <= all - bytes ? memory + offset : NULL;
}

/* What a driver has read over the bus is what it had stored there. */
static void read_register(struct replay *r, const struct rnic_transaction *c)
{
    uint32_t bytes = c->bytes <= 8 ? c->bytes : 8;
    uint8_t *memory = bar_at(r, c->fn, c->bar, c->address, bytes);

    for (unsigned i = 0; memory != NULL && i < bytes; i++) {
        memory[i] = (uint8_t)(c->value >> 8 * i);
    }
    (void)rnic_card_bar_read(&r->card, c->fn, c->bar, c->address, c->bytes);
}

/* Whether the card can be asked for it: the log may have been written by another program. */
static bool is_of_card(const struct replay *r)
{
    const struct rnic_transaction *c = &r->next;
    bool is_access = c->kind <= RNIC_TRANSACTION_REGISTER_WRITE; /* the first four kinds */
    bool is_width = c->bytes == 1 || c->bytes == 2 || c->bytes == 4 || c->bytes == 8;

    return c->fn < rnic_card_functions(&r->card) && (!is_access || is_width);
}

/* What drivers have read while the card waited for its memory. */
static void read_meanwhile(struct replay *r)
{
    uint64_t before;

    do {
        struct rnic_transaction c = r->next; /* `next` moves on meanwhile */
        before = r->number;
        if (r->has_next && is_of_card(r) && c.kind == RNIC_TRANSACTION_REGISTER_READ) {
            read_register(r, &c);
        } else if (r->has_next && is_of_card(r) && c.kind == RNIC_TRANSACTION_CONFIG_READ) {
            (void)rnic_card_config_read(&r->card, c.fn, (uint32_t)c.address, c.bytes);
        }
    } while (r->has_next && r->number > before);
}

static bool is_dma(const struct replay *r, enum rnic_transaction_kind kind, unsigned fn, uint64_t iova,
                   uint32_t bytes)
{
    return r->has_next && r->next.kind == kind && r->next.fn == fn && r->next.address == iova &&
           r->next.bytes == bytes;
}

/* A DMA that the log does not have next is noticed behind it. */
static bool replay_read(void *context, unsigned fn, uint64_t iova, void *out, uint32_t bytes)
{
    struct replay *r = context;

    memset(out, 0, bytes);
    read_meanwhile(r);
    if (!is_dma(r, RNIC_TRANSACTION_DMA_READ, fn, iova, bytes)) {
        return true;
    }
    if (r->next.data != NULL) {
        memcpy(out, r->next.data, bytes);
    }
    return !r->next.failed;
}

static bool replay_write(void *context, unsigned fn, uint64_t iova, const void *in, uint32_t bytes)
{
    struct replay *r = context;

    (void)in;
    read_meanwhile(r);
    return !is_dma(r, RNIC_TRANSACTION_DMA_WRITE, fn, iova, bytes) || !r->next.failed;
}

static bool replay_publish(void *context, unsigned fn, uint64_t iova, const uint8_t word[4])
{
    return replay_write(context, fn, iova, word, 4);
}

static void replay_interrupt(void *context, unsigned fn, unsigned vector)
{
    (void)context; /* its record was compared */
    (void)fn;
    (void)vector;
}

static void replay_transmit(void *context, const uint8_t *frame, uint32_t bytes)
{
    (void)context; /* likewise */
    (void)frame;
    (void)bytes;
}

static bool replay_is_gone(void *context, unsigned fn)
{
    struct replay *r = context;

    return r->has_next && r->next.kind == RNIC_TRANSACTION_GONE && r->next.fn == fn;
}

static void replay_clear(void *context, unsigned fn)
{
    struct replay *r = context;

    (void)madvise(r->card.bar4[fn], r->bar4_bytes, MADV_DONTNEED); /* it is private: zeros again */
}

static void replay_loaded(void *context, unsigned fn, unsigned bar, uint64_t offset, void *data,
                          uint32_t bytes)
{
    struct replay *r = context;
    const struct rnic_transaction *next = &r->next;
    uint8_t *memory = bar_at(r, fn, bar, offset, bytes);

    if (bar == RNIC_POISONED_DMA) { /* the log has the bytes as they were afterwards */
        if (is_dma(r, RNIC_TRANSACTION_DMA_READ, fn, offset, bytes) && next->data != NULL) {
            memcpy(data, next->data, bytes);
        }
        return;
    }
    if (!r->has_next || next->kind != RNIC_TRANSACTION_LOAD || next->value != r->loads) {
        r->loads++;
        return;
    }
    if (memory == NULL || next->fn != fn || next->bar != bar || next->address != offset ||
        next->bytes != bytes || next->data == NULL) {
        differ(r, &(struct rnic_transaction){.time = next->time,
                                             .kind = RNIC_TRANSACTION_LOAD,
                                             .fn = (uint16_t)fn,
                                             .bar = (uint8_t)bar,
                                             .address = offset,
                                             .value = r->loads,
                                             .bytes = bytes,
                                             .data = data});
        return;
    }
    memcpy(data, next->data, bytes);
    memcpy(memory, next->data, bytes);
    replay_step(r);
}

/* The card has stored it in the memory itself, but a load before may have changed that. */
static void replay_stored(void *context, unsigned fn, unsigned bar, uint64_t offset, const void *data,
                          uint32_t bytes)
{
    uint8_t *memory = bar_at(context, fn, bar, offset, bytes);

    if (memory != NULL) {
        memcpy(memory, data, bytes);
    }
}

static const struct rnic_card_host replay_host = {.dma_read = replay_read,
                                                  .dma_write = replay_write,
                                                  .dma_publish = replay_publish,
                                                  .interrupt = replay_interrupt,
                                                  .transmit = replay_transmit,
                                                  .transaction = say,
                                                  .is_gone = replay_is_gone,
                                                  .clear = replay_clear,
                                                  .loaded = replay_loaded,
                                                  .stored = replay_stored};

/* --- the card --- */

static uint8_t *zeroed_pages(size_t bytes)
{
    void *pages = bytes == 0 ? MAP_FAILED
                             : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

static void give_back(uint8_t *pages, size_t bytes)
{
    if (pages != NULL) {
        (void)munmap(pages, bytes);
    }
}

static void power_up(struct replay *r)
{
    char text[RNIC_CARD_TEXT];
    uint32_t bytes = r->next.bytes < sizeof(text) ? r->next.bytes : (uint32_t)sizeof(text) - 1;

    if (!r->has_next || r->next.kind != RNIC_TRANSACTION_CARD || r->next.data == NULL) {
        tool_complain("%s: it does not begin with a card: only a log of vipl-rnicd --record can be replayed",
                      r->path);
        return;
    }
    memcpy(text, r->next.data, bytes);
    text[bytes] = '\0';
    if (!rnic_card_understand(text, &r->config)) {
        tool_complain("%s: it is the log of a card that this version does not have: %s", r->path, text);
        return;
    }
    r->area_bytes = rnic_card_bytes(&r->config);
    r->bar4_bytes = (size_t)rnic_card_bar4_bytes(&r->config);
    uint8_t *area = zeroed_pages(r->area_bytes);
    if (area == NULL) {
        tool_complain("%s", strerror(ENOMEM));
        return;
    }
    rnic_card_init(&r->card, area, &r->config, &replay_host, r);
}

/* Begins with a saved card, and with the record that comes next. */
static void power_on(struct replay *r, const char *path)
{
    struct saved_card saved;
    const char *wrong = saved_read(path, &saved, zeroed_pages);
    bool is_card = wrong == NULL &&
                   rnic_card_continue(&r->card, saved.area, &saved.config, saved.swaps, &replay_host, r);

    r->config = saved.config;
    r->area_bytes = saved.area == NULL ? 0 : rnic_card_bytes(&saved.config);
    r->bar4_bytes = (size_t)rnic_card_bar4_bytes(&saved.config);
    for (unsigned fn = 0; fn < RNIC_CARD_MAX_FUNCTIONS; fn++) {
        rnic_card_give(&r->card, fn, saved.bar2[fn], saved.bar4[fn]);
    }
    if (!is_card) {
        tool_complain("%s: %s", path, wrong != NULL ? wrong : "it is a card of another version");
        give_back(saved.area, r->area_bytes);
        r->card.area = NULL;
        return;
    }
    while (r->has_next && r->number < saved.number) {
        replay_step(r);
    }
}

static int save(const struct replay *r, const char *path)
{
    struct saved_card saved = {.config = r->config, .number = r->number, .area = r->card.area};
    int error;

    memcpy(saved.bar2, r->card.bar2, sizeof(saved.bar2));
    memcpy(saved.bar4, r->card.bar4, sizeof(saved.bar4));
    error = saved_write(path, &saved);
    if (error != 0) {
        tool_complain("%s: %s", path, strerror(error));
    }
    return error == 0 ? TOOL_OK : TOOL_FAILED;
}

static void detach(struct replay *r, unsigned fn)
{
    uint8_t *bar2 = r->card.bar2[fn];
    uint8_t *bar4 = r->card.bar4[fn];

    rnic_card_detach(&r->card, fn);
    give_back(bar2, RNIC_BAR2_BYTES);
    give_back(bar4, r->bar4_bytes);
}

static void attach(struct replay *r, unsigned fn, uint64_t bars)
{
    uint8_t *bar2 = (bars & 1) != 0 ? zeroed_pages(RNIC_BAR2_BYTES) : NULL;
    uint8_t *bar4 = (bars & 2) != 0 ? zeroed_pages(r->bar4_bytes) : NULL;

    if (r->card.bar2[fn] != NULL || r->card.bar4[fn] != NULL) {
        detach(r, fn); /* which the log says too */
    }
    rnic_card_attach(&r->card, fn, bar2, bar4);
}

static void set_text(struct replay *r, const struct rnic_transaction *c)
{
    char text[1024];
    char error[128];
    uint32_t bytes = c->data == NULL ? 0 : c->bytes < sizeof(text) ? c->bytes : (uint32_t)sizeof(text) - 1;

    if (bytes > 0) {
        memcpy(text, c->data, bytes);
    }
    text[bytes] = '\0';
    (void)(c->kind == RNIC_TRANSACTION_FAULTS ? rnic_card_faults : rnic_card_impair)(&r->card, text, error,
                                                                                     sizeof(error));
}

/* A frame's bytes do not outlive the record, which the card takes at once. */
static void receive(struct replay *r, const struct rnic_transaction *c)
{
    uint8_t *frame = malloc(c->bytes == 0 ? 1 : c->bytes);

    if (frame == NULL || c->data == NULL) {
        differ(r, NULL);
    } else {
        memcpy(frame, c->data, c->bytes);
        rnic_card_receive(&r->card, frame, c->bytes);
    }
    free(frame);
}

/* Does what the card was told next. The card says so itself, by which the record is over. */
static void tell_card(struct replay *r)
{
    struct rnic_transaction c = r->next; /* `next` moves on meanwhile */
    struct rnic_card *card = &r->card;

    switch (c.kind) {
    case RNIC_TRANSACTION_CONFIG_READ:
        (void)rnic_card_config_read(card, c.fn, (uint32_t)c.address, c.bytes);
        break;
    case RNIC_TRANSACTION_CONFIG_WRITE:
        rnic_card_config_write(card, c.fn, (uint32_t)c.address, c.bytes, (uint32_t)c.value);
        break;
    case RNIC_TRANSACTION_REGISTER_READ:
        read_register(r, &c);
        break;
    case RNIC_TRANSACTION_REGISTER_WRITE:
        rnic_card_bar_write(card, c.fn, c.bar, c.address, c.bytes, c.value);
        break;
    case RNIC_TRANSACTION_IMPAIR:
    case RNIC_TRANSACTION_FAULTS:
        set_text(r, &c);
        break;
    case RNIC_TRANSACTION_ATTACH:
        attach(r, c.fn, c.value);
        break;
    case RNIC_TRANSACTION_DETACH:
        detach(r, c.fn);
        break;
    case RNIC_TRANSACTION_LINK:
        rnic_card_link(card, c.value != 0);
        break;
    case RNIC_TRANSACTION_RECEIVE:
        receive(r, &c);
        break;
    case RNIC_TRANSACTION_ADVANCE:
        r->advances++;
        rnic_card_advance(card, c.value);
        break;
    case RNIC_TRANSACTION_TRY_SLEEP:
        (void)rnic_card_sleep(card);
        break;
    case RNIC_TRANSACTION_SLEEP:
        rnic_card_wake(card);
        break;
    default: /* what the card should have done by itself */
        break;
    }
}

static void go_on(struct replay *r)
{
    while (r->has_next && !r->is_past) {
        uint64_t before = r->number;
        if (is_of_card(r)) {
            tell_card(r);
        }
        if (r->has_next && r->number == before) {
            differ(r, NULL);
        }
    }
}

static void power_down(struct replay *r)
{
    for (unsigned fn = 0; fn < RNIC_CARD_MAX_FUNCTIONS; fn++) {
        give_back(r->card.bar2[fn], RNIC_BAR2_BYTES);
        give_back(r->card.bar4[fn], r->bar4_bytes);
    }
    give_back(r->card.area, r->area_bytes);
}

static int conclude(struct replay *r)
{
    log_read_complain(&r->reader, r->path);
    if (r->differs) {
        return REPLAY_DIFFERS;
    }
    printf("%s: %" PRIu64 " records, %" PRIu64 " advances, no difference\n", r->path, r->number - 1,
           r->advances);
    return r->reader.damage != NULL ? TOOL_FAILED : TOOL_OK;
}

int replay(const struct log_options *options)
{
    struct replay *r = calloc(1, sizeof(*r));
    int error = r == NULL ? ENOMEM : log_read_open(&r->reader, options->files[0]);
    int code = TOOL_FAILED;

    if (error != 0) {
        tool_complain("%s: %s", options->files[0], strerror(error));
        free(r);
        return TOOL_FAILED;
    }
    r->path = options->files[0];
    select_begin(&r->selection, options);
    replay_step(r);
    if (options->load != NULL) {
        power_on(r, options->load);
    } else {
        power_up(r);
    }
    if (r->card.area != NULL) {
        go_on(r);
        code = conclude(r);
    }
    if (code == TOOL_OK && options->save != NULL) {
        code = save(r, options->save);
    }
    power_down(r);
    log_read_close(&r->reader);
    free(r);
    return code;
}
