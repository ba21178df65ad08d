/* SPDX-License-Identifier: MIT */
/*
 * The bus protocol (docs/rnic/socket.md), for a program that reaches this card as it would reach a
 * simulator behind a socket. WRITEs are queued as they come. A READ or RESET is set aside until the
 * card has executed those before, and answered when the card is not waiting; what the program sends
 * meanwhile can only be data that the card has asked for.
 */
#include <errno.h>

#include "adapter/adapter.h"
#include "adapter/function.h"
#include "base/little.h"
#include "bus/link.h"

static struct vfu_access access_of(const struct rnic_bus_message *m)
{
    return (struct vfu_access){m->address, m->space, m->width};
}

/* --- the program's messages --- */

/* A program that speaks another version is told this one, and disconnected. */
static int serve_hello(struct rnic_function *f, const struct rnic_bus_message *m)
{
    struct rnic_bus_message answer = {.kind = BUS_HELLO, .id = BUS_MAGIC, .value = BUS_VERSION};
    uint8_t bars[BUS_CARD_HELLO_BYTES];
    if (f->greeted || m->id != BUS_MAGIC) {
        return EPROTO;
    }
    for (unsigned i = 0; i < BUS_BARS; i++) {
        vipl_put_little(bars + (size_t)8 * i, rnic_region_bytes(f, VFU_REGION_BAR0 + i), 8);
    }
    f->greeted = true;
    f->exchange.most = BUS_MAX_DMA;
    int error = rnic_bus_link_send(&f->channel, &answer, bars, sizeof(bars));
    return error == 0 && m->value != BUS_VERSION ? EPROTO : error;
}

/* A WRITE to where the card has nothing changes nothing, as on a bus. */
static int serve_write(struct rnic_function *f, const struct rnic_bus_message *m)
{
    struct vfu_access access = access_of(m);
    uint8_t data[RNIC_KEPT_BYTES];
    if (f->writes++ >= BUS_MAX_WRITES) {
        return EPROTO;
    }
    vipl_put_little(data, m->value, m->width);
    return !rnic_access_is_valid(f, &access) || rnic_stores_keep(f, &access, data) ? 0 : EPROTO;
}

/* One DMA_READ at a time is outstanding: the last one, also if the card waits for it no more. */
static int serve_data(struct rnic_function *f, const struct rnic_bus_message *m, const uint8_t *data)
{
    const struct rnic_exchange *x = &f->exchange;
    uint32_t bytes = m->bytes - BUS_HEADER_BYTES;
    bool is_whole = x->data == NULL || m->status != 0 || bytes == x->bytes;
    return m->id == x->id && is_whole ? rnic_exchange_answer(f, x->id, m->status != 0, data, bytes) : EPROTO;
}

static int serve_message(struct rnic_function *f, const struct rnic_bus_message *m, const uint8_t *data)
{
    bool has_function = m->function == 0 && (f->greeted || m->kind == BUS_HELLO);
    bool has_turn = f->question.kind == 0 || m->kind == BUS_DMA_DATA || m->kind == BUS_BYE;
    if (!has_function || !has_turn) {
        return EPROTO;
    }
    switch (m->kind) {
    case BUS_HELLO:
        return serve_hello(f, m);
    case BUS_WRITE:
        return serve_write(f, m);
    case BUS_DMA_DATA:
        return serve_data(f, m, data);
    case BUS_BYE:
        return EPIPE;
    default: /* READ or RESET: rnic_bus_message_check() has refused all else */
        f->question = *m;
        return 0;
    }
}

/* What could not be sent stays kept: a program that does not read is read from. */
static int serve_host(struct rnic_function *f, bool in_card)
{
    (void)in_card; /* nothing that changes the card is executed here */
    struct rnic_bus_message m;
    const uint8_t *data;
    const char *why;
    int error = vipl_framer_flush(&f->channel);
    if (error == 0 || error == EAGAIN) {
        error = rnic_bus_link_receive(&f->channel, false, &m, &data, &why);
    }
    if (error != 0) {
        return error;
    }
    error = serve_message(f, &m, data);
    vipl_framer_next(&f->channel);
    return error;
}

/* Answers the READ or RESET that was set aside. All stores have been executed. */
static int resume(struct rnic_function *f)
{
    const struct rnic_bus_message question = f->question;
    struct rnic_bus_message answer = {.kind = BUS_DONE, .id = question.id};
    struct vfu_access access = access_of(&question);
    if (question.kind == 0 || f->kept_count > 0) {
        return 0;
    }
    if (question.kind == BUS_RESET) {
        rnic_function_reset(f);
    } else if (rnic_access_is_valid(f, &access)) {
        uint8_t bytes[RNIC_KEPT_BYTES];
        rnic_access_read(f, &access, bytes);
        answer.value = vipl_get_little(bytes, access.bytes);
    } else {
        answer.status = 1;
    }
    f->question.kind = 0;
    f->writes = 0;
    return rnic_bus_link_send(&f->channel, &answer, NULL, 0);
}

/* --- the card's messages --- */

/* A write is done with: the order of the stream is all that the card relies on for this program. */
static int send_dma(struct rnic_function *f)
{
    struct rnic_exchange *x = &f->exchange;
    struct rnic_bus_message m = {.kind = x->is_write ? BUS_DMA_WRITE : BUS_DMA_READ,
                                 .id = x->is_write ? 0 : x->id,
                                 .address = x->iova,
                                 .value = x->is_write ? 0 : x->bytes};
    int error = rnic_bus_link_send(&f->channel, &m, x->data, x->is_write ? x->bytes : 0);
    if (x->is_write) {
        x->data = NULL;
        f->adapter->posted = f;
    }
    return error;
}

static int send_interrupt(struct rnic_function *f, unsigned vector)
{
    struct rnic_bus_message m = {.kind = BUS_INTERRUPT, .value = vector};
    return rnic_bus_link_send(&f->channel, &m, NULL, 0);
}

static void refuse_host(int fd)
{
    struct vipl_framer channel;
    struct rnic_bus_message m = {.kind = BUS_HELLO, .status = 1, .id = BUS_MAGIC, .value = BUS_VERSION};
    if (rnic_bus_link_open(&channel, fd) == 0) {
        (void)rnic_bus_link_send(&channel, &m, NULL, 0);
        vipl_framer_close(&channel);
    }
}

const struct rnic_protocol rnic_bus_protocol = {.open = rnic_bus_link_open,
                                                .serve = serve_host,
                                                .resume = resume,
                                                .send_dma = send_dma,
                                                .interrupt = send_interrupt,
                                                .refuse = refuse_host,
                                                .reads_while_behind = true};
