/* SPDX-License-Identifier: MIT */
/*
 * The host's acts are done again in the log's order. Before each, the card has done all that the
 * log's card did before; if it does nothing of that for some time, it differs. Each function of the
 * log is a connection, from its `attach` to its `detach`.
 *
 * This thread acts, and waits. What the card does is compared in the thread that has its message,
 * under the replay's lock, which is taken after a connection's.
 */
#include "card.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ahead.h"
#include "base/deadline.h"
#include "base/little.h"
#include "ends.h"
#include "replay.h"
#include "rnic/entry.h"
#include "rnic/registers.h"
#include "tool_text.h"

struct replay_to {
    const char *path;
    const struct log_options *options;
    struct log_reader reader;
    struct selection selection;
    struct ends ends;
    struct end *written; /* what was written there last, the card may not have executed yet; or NULL */
    uint64_t acts;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t moved; /* the card has done something */
    struct ahead ahead;
    uint64_t dma; /* bytes */
    bool differs;
    bool is_wrong; /* the replay is over for another reason, which was said */
};

/* --- what is different; the lock is held --- */

static bool is_over(const struct replay_to *r)
{
    return r->differs || r->is_wrong;
}

static void differ(struct replay_to *r, const struct ahead_record *record,
                   const struct rnic_transaction *card)
{
    struct rnic_transaction shown;

    if (is_over(r)) {
        return;
    }
    if (card != NULL) { /* the log's time: a bus has none */
        shown = *card;
        shown.time = record == NULL ? 0 : record->c.time;
    }
    replay_differs(r->path, record == NULL ? r->ahead.read + 1 : record->number,
                   record == NULL ? NULL : &record->c, card == NULL ? NULL : &shown);
    r->differs = true;
}

static void give_up(struct replay_to *r, const char *what)
{
    if (!is_over(r)) {
        tool_complain("%s: %s", r->path, what);
        r->is_wrong = true;
    }
}

/* What the log has next of all that the card does, for a difference that is in none of its
 * records. */
static const struct ahead_record *next_of_log(struct replay_to *r)
{
    const struct ahead_record *missing;
    const struct ahead_record *act = ahead_act(&r->ahead, &missing);
    return missing != NULL ? missing : act;
}

/* --- what the card does; in any thread --- */

static struct replay_to *enter(const struct end *end)
{
    struct replay_to *r = end->all->context;

    pthread_mutex_lock(&r->lock);
    (void)pthread_cond_signal(&r->moved);
    return r;
}

static void leave(struct replay_to *r)
{
    pthread_mutex_unlock(&r->lock);
}

static bool card_reads(void *context, uint64_t address, void *out, uint32_t bytes)
{
    const struct end *end = context;
    struct replay_to *r = enter(end);
    bool is_refused;
    bool is_there = ahead_read(&r->ahead, end->fn, address, out, bytes, &is_refused);

    r->dma += bytes;
    if (!is_there && !is_refused && !ahead_is_over(&r->ahead)) {
        differ(r, next_of_log(r),
               &(struct rnic_transaction){.kind = RNIC_TRANSACTION_DMA_READ,
                                          .fn = (uint16_t)end->fn,
                                          .address = address,
                                          .bytes = bytes});
    }
    leave(r);
    return is_there && !is_refused;
}

static const char *card_writes(void *context, uint64_t address, const void *in, uint32_t bytes)
{
    const struct end *end = context;
    struct replay_to *r = enter(end);
    const struct ahead_record *other;

    r->dma += bytes;
    if (!ahead_write(&r->ahead, end->fn, address, in, bytes, &other) &&
        (other != NULL || !ahead_is_over(&r->ahead))) {
        differ(r, other != NULL ? other : next_of_log(r),
               &(struct rnic_transaction){.kind = RNIC_TRANSACTION_DMA_WRITE,
                                          .fn = (uint16_t)end->fn,
                                          .address = address,
                                          .bytes = bytes,
                                          .data = in});
    }
    leave(r);
    return NULL;
}

static bool card_interrupts(void *context, uint64_t vector)
{
    const struct end *end = context;
    struct replay_to *r = enter(end);

    bool is_vector = ahead_interrupt(&r->ahead, end->fn, vector);

    leave(r);
    return is_vector;
}

static void card_is_gone(void *context)
{
    struct replay_to *r = context;

    pthread_mutex_lock(&r->lock);
    (void)pthread_cond_signal(&r->moved);
    leave(r);
}

static const struct rnic_bus_host_ops ops = {
    .dma_read = card_reads, .dma_write = card_writes, .interrupt = card_interrupts};

/* --- waiting --- */

static void check_cards(struct replay_to *r)
{
    for (unsigned fn = 0; fn < RNIC_CARD_MAX_FUNCTIONS && !is_over(r); fn++) {
        const struct end *end = r->ends.ends[fn];
        if (end != NULL && rnic_bus_host_is_gone(&end->host)) {
            tool_complain("%s: %s", r->options->card,
                          end->host.why != NULL ? end->host.why : "the card has ended the connection");
            differ(r, next_of_log(r), NULL);
        }
    }
}

/* Waits until the card does something, or a time is over. The lock is held, and released
 * meanwhile. */
static void await_card(struct replay_to *r, uint64_t deadline)
{
    const uint64_t ns_per_s = 1000000000;
    const struct timespec until = {.tv_sec = (time_t)(deadline / ns_per_s),
                                   .tv_nsec = (long)(deadline % ns_per_s)};

    (void)pthread_cond_timedwait(&r->moved, &r->lock, &until);
}

/* Whatever else the card does: this record has to be begun, or go on, by then. */
struct due {
    uint64_t number;
    uint32_t done;
    uint64_t deadline;
};

static bool is_due(struct due *due, const struct ahead_record *missing, unsigned wait_ms)
{
    if (missing->number == due->number && missing->done == due->done) {
        return vipl_ms_left(due->deadline) == 0;
    }
    *due = (struct due){missing->number, missing->done, vipl_deadline(wait_ms)};
    return false;
}

/* Messages of two connections have no order: the answer to a read says that what was written before
 * on that connection is executed. */
static void finish_others(struct replay_to *r, const struct end *end)
{
    uint64_t value;

    if (r->written != NULL && r->written != end) {
        (void)rnic_bus_host_read(&r->written->host, BUS_CONFIG, 0, 4, &value);
        r->written = NULL;
    }
}

/* Rings the doorbells of a function that were kept. The lock is not held. */
static void ring(struct replay_to *r, struct end *end)
{
    finish_others(r, end);
    for (unsigned i = 0; i < end->doorbells; i++) {
        uint8_t bytes[4]; /* the log has the index */
        rnic_put32(bytes, (uint32_t)end->doorbell[i].value, end->is_big);
        rnic_bus_host_write(&end->host, 2, end->doorbell[i].address, sizeof(bytes), vipl_get_little32(bytes));
        r->written = end;
    }
    end->doorbells = 0;
}

/* A doorbell is kept until the log's card has acted on it: of doorbells of several functions that
 * it has seen in one look, it may have acted on the last one first. */
static void keep_doorbell(struct replay_to *r, struct end *end, const struct rnic_transaction *c)
{
    if (end->doorbells == sizeof(end->doorbell) / sizeof(end->doorbell[0])) {
        ring(r, end);
    }
    end->doorbell[end->doorbells++] = *c;
}

/* Returns true if there was a doorbell for what the card does next. The lock is released
 * meanwhile. */
static bool ring_next(struct replay_to *r)
{
    bool has[RNIC_CARD_MAX_FUNCTIONS];

    for (unsigned fn = 0; fn < RNIC_CARD_MAX_FUNCTIONS; fn++) {
        has[fn] = r->ends.ends[fn] != NULL && r->ends.ends[fn]->doorbells > 0;
    }
    unsigned fn = ahead_turn(&r->ahead, has);
    if (fn == RNIC_CARD_MAX_FUNCTIONS) {
        return false;
    }
    leave(r);
    ring(r, r->ends.ends[fn]);
    pthread_mutex_lock(&r->lock);
    return true;
}

/* Waits until the card has done what comes before the next act. NULL: the log or the replay is
 * over. */
static struct ahead_record *await_act(struct replay_to *r)
{
    struct due due = {0};

    for (check_cards(r); !is_over(r); check_cards(r)) {
        const struct ahead_record *missing;
        struct ahead_record *act = ahead_act(&r->ahead, &missing);
        if (r->ahead.is_out) {
            give_up(r, strerror(ENOMEM));
        } else if (ring_next(r)) {
            continue;
        } else if (act != NULL || (missing == NULL && r->ahead.is_over)) {
            return act;
        } else if (missing != NULL && is_due(&due, missing, r->options->wait_ms)) {
            differ(r, missing, NULL);
        } else if (missing != NULL) {
            await_card(r, due.deadline);
        }
    }
    return NULL;
}

/* --- what the host does; without the lock --- */

static void stop(struct replay_to *r, const char *what, const char *why)
{
    tool_complain("%s: %s", what, why);
    pthread_mutex_lock(&r->lock);
    r->is_wrong = true;
    leave(r);
}

static void attach(struct replay_to *r, unsigned fn)
{
    const char *why;
    int error = ends_open(&r->ends, fn, &why);

    if (error != 0) {
        stop(r, r->options->card, why != NULL ? why : strerror(error));
    }
}

static void fail(struct replay_to *r, const struct ahead_record *record, const struct rnic_transaction *card)
{
    pthread_mutex_lock(&r->lock);
    check_cards(r);
    differ(r, record, card);
    leave(r);
}

static struct rnic_transaction next_act_of(struct replay_to *r)
{
    struct rnic_transaction next = {.kind = RNIC_TRANSACTION_CARD}; /* which is no act */

    pthread_mutex_lock(&r->lock);
    const struct ahead_record *second = ahead_second_act(&r->ahead);
    if (second != NULL) {
        next = second->c;
    }
    leave(r);
    return next;
}

/* A function that is reset is detached, and attached at once. */
static void detach(struct replay_to *r, struct end *end, const struct ahead_record *record)
{
    const struct rnic_transaction next = next_act_of(r);
    bool is_reset =
        next.kind == RNIC_TRANSACTION_ATTACH && next.fn == record->c.fn && next.time == record->c.time;

    r->written = NULL;
    if (!is_reset) {
        ends_close(&r->ends, end->fn);
        return;
    }
    if (rnic_bus_host_reset(&end->host) == EIO) {
        tool_complain("%s: the card refuses a reset", r->options->card);
        fail(r, record, NULL);
    }
}

static unsigned space_of(const struct rnic_transaction *c)
{
    bool is_config = c->kind == RNIC_TRANSACTION_CONFIG_READ || c->kind == RNIC_TRANSACTION_CONFIG_WRITE;
    return is_config ? (unsigned)BUS_CONFIG : c->bar;
}

static bool is_access(const struct rnic_transaction *c)
{
    const struct rnic_bus_message m = {.bytes = BUS_HEADER_BYTES,
                                       .kind = BUS_READ,
                                       .width = (uint16_t)c->bytes,
                                       .space = (uint8_t)space_of(c),
                                       .address = c->address};
    return c->bytes == m.width && rnic_bus_message_check(&m, false) == NULL;
}

/* Whether the log's host has read the same register again at once. */
static bool is_read_again(struct replay_to *r, const struct rnic_transaction *c)
{
    const struct rnic_transaction next = next_act_of(r);
    return next.kind == c->kind && next.fn == c->fn && next.bar == c->bar && next.address == c->address &&
           next.bytes == c->bytes;
}

/* A register that the log's host has read again and again until it had a value may have that
 * sooner, or later: then it is read again. */
static void compare_register(struct replay_to *r, struct end *end, const struct ahead_record *record)
{
    const uint64_t pause_ns = 1000000;
    const struct rnic_transaction *c = &record->c;
    uint64_t deadline = vipl_deadline(r->options->wait_ms);
    struct rnic_transaction card = *c;
    bool is_late = false;

    while (!is_late && rnic_bus_host_read(&end->host, space_of(c), c->address, c->bytes, &card.value) == 0) {
        if (card.value == c->value || is_read_again(r, c)) {
            return;
        }
        is_late = vipl_ms_left(deadline) == 0;
        vipl_pause(is_late ? 0 : pause_ns);
    }
    fail(r, record, &card);
}

static void write_register(struct replay_to *r, struct end *end, const struct rnic_transaction *c)
{
    r->written = end;
    if (c->kind == RNIC_TRANSACTION_REGISTER_WRITE && c->bar == 0 && c->address == RNIC_REG_CTRL) {
        end->is_big = (c->value & RNIC_CTRL_BYTE_ORDER) != 0;
    }
    rnic_bus_host_write(&end->host, space_of(c), c->address, c->bytes, c->value);
}

static void act_in_function(struct replay_to *r, struct end *end, const struct ahead_record *record)
{
    const struct rnic_transaction *c = &record->c;

    if (c->kind == RNIC_TRANSACTION_DOORBELL) {
        keep_doorbell(r, end, c);
        return;
    }
    ring(r, end);
    finish_others(r, end);
    if (c->kind == RNIC_TRANSACTION_DETACH) {
        detach(r, end, record);
    } else if (!is_access(c)) {
        stop(r, r->path, "it has an access that a bus does not have");
    } else if (c->kind == RNIC_TRANSACTION_CONFIG_READ || c->kind == RNIC_TRANSACTION_REGISTER_READ) {
        compare_register(r, end, record);
        r->written = NULL;
    } else {
        write_register(r, end, c);
    }
}

static void act(struct replay_to *r, const struct ahead_record *record)
{
    const struct rnic_transaction *c = &record->c;
    bool is_function = c->fn < RNIC_CARD_MAX_FUNCTIONS;
    struct end *end = is_function ? r->ends.ends[c->fn] : NULL;

    if (c->kind == RNIC_TRANSACTION_RECEIVE) {
        stop(r, r->path, "it has frames that came by a wire, which a bus does not carry");
    } else if (c->kind == RNIC_TRANSACTION_LOAD) { /* in an order that is not known */
        stop(r, r->path, "its driver had the card's BARs in its memory: record vipl-rnicd --bus");
    } else if (c->kind == RNIC_TRANSACTION_FAULTS) {
        if (c->bytes > 0) {
            stop(r, r->path, "its card had faults, which another one does not have");
        }
    } else if (c->kind == RNIC_TRANSACTION_ATTACH) {
        if (is_function && end == NULL) {
            attach(r, c->fn);
        }
    } else if (end != NULL) {
        act_in_function(r, end, record);
    }
}

static void go_on(struct replay_to *r)
{
    const struct ahead_record *record;

    pthread_mutex_lock(&r->lock);
    while ((record = await_act(r)) != NULL) {
        leave(r);
        act(r, record);
        r->acts++;
        pthread_mutex_lock(&r->lock);
        ahead_pass(&r->ahead);
    }
    leave(r);
}

static int conclude(struct replay_to *r)
{
    log_read_complain(&r->reader, r->path);
    if (r->differs) {
        return REPLAY_DIFFERS;
    }
    if (r->is_wrong || r->reader.damage != NULL) {
        return TOOL_FAILED;
    }
    printf("%s: %" PRIu64 " records, %" PRIu64 " accesses, %" PRIu64 " bytes of DMA, no difference\n",
           r->path, r->ahead.read, r->acts, r->dma);
    if (r->ahead.reordered > 0 || r->ahead.all_early > 0) {
        printf("%s: in another place than in the log: %" PRIu64 " writes, %" PRIu64 " interrupts\n", r->path,
               r->ahead.reordered, r->ahead.all_early);
    }
    return TOOL_OK;
}

static void begin_locks(struct replay_to *r)
{
    pthread_condattr_t monotonic;

    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&r->moved, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)pthread_mutex_init(&r->lock, NULL);
}

/* The log is open. */
static int replay_log(struct replay_to *r)
{
    int error = ahead_begin(&r->ahead, &r->reader, &r->selection)
                    ? ends_begin(&r->ends, r->options->card, r->options->wait_ms, &ops, card_is_gone, r)
                    : ENOMEM;

    if (error != 0) {
        tool_complain("%s", strerror(error));
        return TOOL_FAILED;
    }
    go_on(r);
    ends_end(&r->ends);
    return conclude(r);
}

int replay_to_card(const struct log_options *options)
{
    struct replay_to *r = calloc(1, sizeof(*r));
    int error = r == NULL ? ENOMEM : log_read_open(&r->reader, options->files[0]);

    if (error != 0) {
        tool_complain("%s: %s", options->files[0], strerror(error));
        free(r);
        return TOOL_FAILED;
    }
    r->path = options->files[0];
    r->options = options;
    select_begin(&r->selection, options);
    begin_locks(r);
    int code = replay_log(r);
    ahead_end(&r->ahead);
    log_read_close(&r->reader);
    (void)pthread_cond_destroy(&r->moved);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
    return code;
}
