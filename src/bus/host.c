/* SPDX-License-Identifier: MIT */
/*
 * A thread that waits, for an answer or for room, holds the lock and handles what the card sends
 * meanwhile: the card may need that before it answers or reads. Nothing that the card sends is held
 * back by what this end wants to send, so that neither end can wait for the other for ever.
 */
#include "bus/host.h"

#include <errno.h>
#include <string.h>

#include "base/deadline.h"
#include "base/little.h"
#include "base/lock_rank.h"
#include "os/os_atomic.h"

enum {
    ROOM_MS = 1,
    BATCH = 256 /* messages that are handled before other threads get the lock */
};

bool rnic_bus_host_is_gone(const struct rnic_bus_host *host)
{
    return vipl_load_acquire(&host->gone) != 0; /* pairs with hang_up() */
}

static int hang_up(struct rnic_bus_host *h, const char *why)
{
    if (!rnic_bus_host_is_gone(h)) {
        h->why = why;
        vipl_unix_shutdown(h->channel.fd); /* wakes the threads that sleep on the descriptor */
        vipl_store_release(&h->gone, 1);   /* pairs with rnic_bus_host_is_gone() */
    }
    return ENODEV;
}

static int send_to_card(struct rnic_bus_host *h, const struct rnic_bus_message *m, const void *data,
                        size_t data_bytes)
{
    int error = rnic_bus_link_send(&h->channel, m, data, data_bytes);
    return error == 0         ? 0
           : error == ENOBUFS ? hang_up(h, "the card does not read what it has asked for")
                              : hang_up(h, NULL);
}

/* --- what the card sends --- */

static int serve_dma_read(struct rnic_bus_host *h, const struct rnic_bus_message *m)
{
    struct rnic_bus_message answer = {.kind = BUS_DMA_DATA, .function = m->function, .id = m->id};
    uint32_t bytes = (uint32_t)m->value;
    if (!h->ops->dma_read(h->context, m->address, h->data, bytes)) {
        answer.status = 1;
        bytes = 0;
    }
    return send_to_card(h, &answer, h->data, bytes);
}

/* What is awaited: the answer to the access with this id. */
struct awaited {
    uint16_t kind;
    bool has_come;
    struct rnic_bus_message answer;
};

static int take_answer(struct rnic_bus_host *h, const struct rnic_bus_message *m, struct awaited *awaited)
{
    if (awaited == NULL || awaited->has_come || m->kind != awaited->kind || m->id != h->id) {
        return hang_up(h, "the card answers what was not asked");
    }
    awaited->has_come = true;
    awaited->answer = *m;
    return 0;
}

static int handle(struct rnic_bus_host *h, const struct rnic_bus_message *m, const uint8_t *data,
                  struct awaited *awaited)
{
    const char *why;
    if (m->function != 0) {
        return hang_up(h, "the card speaks of a function that this host does not have");
    }
    if (!h->greeted && m->kind != BUS_HELLO && m->kind != BUS_BYE) {
        return hang_up(h, "the card has sent something before its HELLO");
    }
    switch (m->kind) {
    case BUS_DMA_READ:
        return serve_dma_read(h, m);
    case BUS_DMA_WRITE:
        why = h->ops->dma_write(h->context, m->address, data, m->bytes - BUS_HEADER_BYTES);
        return why == NULL ? 0 : hang_up(h, why);
    case BUS_INTERRUPT:
        return h->ops->interrupt(h->context, m->value)
                   ? 0
                   : hang_up(h, "the card fires a vector that does not exist");
    case BUS_BYE:
        return hang_up(h, NULL);
    default: /* HELLO or DONE: rnic_bus_message_check() has refused all else */
        return take_answer(h, m, awaited);
    }
}

static void take_hello(struct rnic_bus_host *h, const struct rnic_bus_message *m, const uint8_t *data)
{
    h->greeted = true;
    for (unsigned i = 0; m->bytes == BUS_HEADER_BYTES + BUS_CARD_HELLO_BYTES && i < BUS_BARS; i++) {
        h->bars[i] = vipl_get_little64(data + (size_t)8 * i);
    }
}

/* Handles one message that has arrived. EAGAIN: none has. */
static int take_card_message(struct rnic_bus_host *h, struct awaited *awaited)
{
    struct rnic_bus_message m;
    const uint8_t *data;
    const char *why = NULL;
    int error = rnic_bus_link_receive(&h->channel, true, &m, &data, &why);
    if (error != 0) {
        return error == EAGAIN ? EAGAIN : hang_up(h, why);
    }
    error = handle(h, &m, data, awaited);
    if (m.kind == BUS_HELLO && error == 0) {
        take_hello(h, &m, data);
    }
    vipl_framer_next(&h->channel);
    return error;
}

static int take_all(struct rnic_bus_host *h)
{
    int error = 0;
    for (unsigned i = 0; i < BATCH && error == 0; i++) {
        error = take_card_message(h, NULL);
    }
    return error == EAGAIN ? 0 : error;
}

/* --- accesses --- */

/* Sends what is kept; while some of that stays kept, the wait is short. `ms` are left. */
static int wait_for_card(struct rnic_bus_host *h, int ms)
{
    int kept = vipl_framer_flush(&h->channel);
    if (kept != 0 && kept != EAGAIN) {
        return hang_up(h, NULL);
    }
    (void)vipl_poll(&h->channel.fd, 1, kept == EAGAIN && ms > ROOM_MS ? ROOM_MS : ms, NULL);
    return 0;
}

/* Handles what has arrived, and sends what is kept. */
static int await_room(struct rnic_bus_host *h)
{
    uint64_t deadline = vipl_deadline(h->patience_ms);
    int error = rnic_bus_host_is_gone(h) ? ENODEV : take_all(h);
    while (error == 0 && (error = vipl_framer_flush(&h->channel)) == EAGAIN) {
        int ms = vipl_ms_left(deadline);
        error = ms == 0 ? hang_up(h, "the card does not read") : wait_for_card(h, ms);
        error = error == 0 ? take_all(h) : error;
    }
    return error == 0 ? 0 : hang_up(h, NULL);
}

/* The time that is left is looked at before the messages: when that is over, what has arrived is
 * handled once more, for this thread may have been kept from it; and a card that sends something
 * else for ever has no more time than that. */
static int await_answer(struct rnic_bus_host *h, struct awaited *awaited)
{
    uint64_t deadline = vipl_deadline(h->patience_ms);
    int error = 0;
    while (error == 0 && !awaited->has_come) {
        int ms = vipl_ms_left(deadline);
        for (unsigned i = 0; i < BATCH && error == 0 && !awaited->has_come; i++) {
            error = take_card_message(h, awaited);
        }
        if (!awaited->has_come && (error == 0 || error == EAGAIN) && ms == 0) {
            error = hang_up(h, "the card does not answer");
        }
        error = error == EAGAIN ? wait_for_card(h, ms) : error;
    }
    return error;
}

/* The lock is held. */
static int ask_card(struct rnic_bus_host *h, struct rnic_bus_message *m, struct rnic_bus_message *answer)
{
    struct awaited awaited = {.kind = BUS_DONE};
    int error = await_room(h);
    m->id = ++h->id;
    error = error == 0 ? send_to_card(h, m, NULL, 0) : error;
    error = error == 0 ? await_answer(h, &awaited) : error;
    h->writes = 0;
    *answer = awaited.answer;
    return error;
}

/* The card may be waiting for what is still kept. */
static void unlock(struct rnic_bus_host *h)
{
    if (h->channel.out_bytes > 0 && !rnic_bus_host_is_gone(h)) {
        h->ops->behind(h->context);
    }
    vipl_mutex_unlock(&h->lock);
}

static int ask_locking(struct rnic_bus_host *h, struct rnic_bus_message *m, struct rnic_bus_message *answer)
{
    int cancel = vipl_cancel_off();
    vipl_mutex_lock(&h->lock);
    int error = ask_card(h, m, answer);
    unlock(h);
    vipl_cancel_restore(cancel);
    return error;
}

int rnic_bus_host_read(struct rnic_bus_host *host, unsigned space, uint64_t address, unsigned width,
                       uint64_t *value)
{
    struct rnic_bus_message m = {
        .kind = BUS_READ, .width = (uint16_t)width, .space = (uint8_t)space, .address = address};
    struct rnic_bus_message answer;
    int error = ask_locking(host, &m, &answer);
    if (error == 0) { /* a bus answers ones for what it has no answer to */
        *value = (answer.status == 0 ? answer.value : UINT64_MAX) & (UINT64_MAX >> (64 - 8 * width));
    }
    return error;
}

int rnic_bus_host_reset(struct rnic_bus_host *host)
{
    struct rnic_bus_message m = {.kind = BUS_RESET};
    struct rnic_bus_message answer;
    int error = ask_locking(host, &m, &answer);
    return error == 0 && answer.status != 0 ? EIO : error;
}

/* A card need not keep more writes than BUS_MAX_WRITES while it waits for memory: the answer to a
 * read says that it has executed those before. */
static int wait_for_writes(struct rnic_bus_host *h)
{
    struct rnic_bus_message m = {.kind = BUS_READ, .width = 4, .space = BUS_CONFIG};
    struct rnic_bus_message answer;
    return h->writes < BUS_MAX_WRITES ? await_room(h) : ask_card(h, &m, &answer);
}

void rnic_bus_host_write(struct rnic_bus_host *host, unsigned space, uint64_t address, unsigned width,
                         uint64_t value)
{
    struct rnic_bus_message m = {.kind = BUS_WRITE,
                                 .width = (uint16_t)width,
                                 .space = (uint8_t)space,
                                 .address = address,
                                 .value = value};
    int cancel = vipl_cancel_off();
    vipl_mutex_lock(&host->lock);
    if (wait_for_writes(host) == 0) {
        host->writes++;
        (void)send_to_card(host, &m, NULL, 0);
    }
    unlock(host);
    vipl_cancel_restore(cancel);
}

/* --- progress --- */

static bool serve_locked(struct rnic_bus_host *h)
{
    int error = rnic_bus_host_is_gone(h) ? ENODEV : take_all(h);
    error = error == 0 ? vipl_framer_flush(&h->channel) : error;
    if (error != 0 && error != EAGAIN) {
        (void)hang_up(h, NULL);
    }
    return error != EAGAIN;
}

bool rnic_bus_host_serve(struct rnic_bus_host *host)
{
    int cancel = vipl_cancel_off();
    vipl_mutex_lock(&host->lock);
    bool is_done = serve_locked(host);
    vipl_mutex_unlock(&host->lock);
    vipl_cancel_restore(cancel);
    return is_done;
}

void rnic_bus_host_progress(struct rnic_bus_host *host)
{
    int cancel = vipl_cancel_off();
    if (vipl_mutex_trylock(&host->lock)) {
        (void)serve_locked(host);
        unlock(host);
    }
    vipl_cancel_restore(cancel);
}

/* --- opening and closing --- */

/* A card that has no function may have said so, and closed the connection, before this end has said
 * anything. */
static int exchange_hellos(struct rnic_bus_host *h, struct rnic_bus_message *answer)
{
    struct rnic_bus_message m = {.kind = BUS_HELLO, .id = BUS_MAGIC, .value = BUS_VERSION};
    struct awaited awaited = {.kind = BUS_HELLO};
    int cancel = vipl_cancel_off();
    vipl_mutex_lock(&h->lock);
    h->id = BUS_MAGIC;
    (void)rnic_bus_link_send(&h->channel, &m, NULL, 0);
    int error = await_answer(h, &awaited);
    vipl_mutex_unlock(&h->lock);
    vipl_cancel_restore(cancel);
    *answer = awaited.answer;
    return error;
}

/* A card of another version answers with its own, or closes the connection. */
static int greet(struct rnic_bus_host *h)
{
    struct rnic_bus_message answer;
    int error = exchange_hellos(h, &answer);
    if (error != 0) {
        return error;
    }
    if (answer.value != BUS_VERSION) {
        h->why = "the card speaks another version of the protocol";
        return EPROTO;
    }
    if (answer.status != 0) {
        return EBUSY;
    }
    if (answer.bytes != BUS_HEADER_BYTES + BUS_CARD_HELLO_BYTES) {
        h->why = "the card's HELLO does not tell its BARs";
        return EPROTO;
    }
    return 0;
}

int rnic_bus_host_open(struct rnic_bus_host *host, int fd, unsigned patience_ms,
                       const struct rnic_bus_host_ops *ops, void *context)
{
    memset(host, 0, sizeof(*host));
    vipl_mutex_init(&host->lock, VIPL_RANK_PCI);
    host->patience_ms = patience_ms;
    host->ops = ops;
    host->context = context;
    int error = rnic_bus_link_open(&host->channel, fd);
    host->data = vipl_alloc(BUS_MAX_DMA);
    error = error == 0 && host->data == NULL ? ENOMEM : error;
    error = error == 0 ? greet(host) : error;
    if (error != 0) {
        rnic_bus_host_close(host);
    }
    return error;
}

void rnic_bus_host_leave(struct rnic_bus_host *host)
{
    struct rnic_bus_message m = {.kind = BUS_BYE};
    struct awaited awaited = {0}; /* which never comes */
    int cancel = vipl_cancel_off();
    vipl_mutex_lock(&host->lock);
    if (await_room(host) == 0 && send_to_card(host, &m, NULL, 0) == 0) {
        (void)await_answer(host, &awaited);
    }
    vipl_mutex_unlock(&host->lock);
    vipl_cancel_restore(cancel);
}

void rnic_bus_host_close(struct rnic_bus_host *host)
{
    if (host->channel.fd >= 0 && !rnic_bus_host_is_gone(host)) {
        (void)rnic_bus_link_send(&host->channel, &(struct rnic_bus_message){.kind = BUS_BYE}, NULL, 0);
    }
    vipl_framer_close(&host->channel);
    vipl_free(host->data);
    host->data = NULL;
}
