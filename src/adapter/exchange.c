/* SPDX-License-Identifier: MIT */
/*
 * The card's accesses to a program's memory, one run after the other: made here where this process
 * can reach it, else by a message and its reply. The card, and with it every other function, waits
 * for the reply, so that the time for it is short, and a program that once let it pass is not asked
 * again before it has answered.
 *
 * Meanwhile the program's own requests are served, as far as they do not change the card: QEMU
 * answers only once it has its reply. A request that cannot be served ends the exchange. So are
 * those of other functions, which may be the same QEMU's: one that cannot be served waits.
 */
#include "adapter/function.h"

#include <errno.h>
#include <string.h>

#include "adapter/adapter.h"
#include "base/deadline.h"
#include "base/log.h"

enum { REPLY_MS = 1000, ROOM_MS = 1 };

static bool has_answer(const struct rnic_function *f)
{
    return f->exchange.data == NULL;
}

static bool has_room(const struct rnic_function *f)
{
    return f->channel.out_bytes == 0;
}

static bool is_served(const struct rnic_function *f)
{
    return f->channel.fd >= 0 && !f->is_blocked && !f->is_over && has_room(f);
}

/* Serves other functions. Returns true if something had come, and how many descriptors have more to
 * come. */
static bool serve_others(const struct rnic_function *f, int *fds, unsigned *count)
{
    struct rnic_adapter *a = f->adapter;
    bool any = false;
    for (unsigned i = 0; i < a->config.functions; i++) {
        struct rnic_function *other = &a->functions[i];
        if (other == f || !is_served(other)) {
            continue;
        }
        int error = other->protocol->serve(other, true);
        other->is_blocked = error == EBUSY;
        other->is_over = error != 0 && error != EAGAIN && error != EBUSY;
        any = any || error != EAGAIN;
        fds[*count] = other->channel.fd;
        *count += is_served(other) ? 1 : 0;
    }
    return any;
}

/* Nothing has come: waits for more; `ms` are left. */
static int await_more(const struct rnic_function *f, int ms)
{
    int fds[RNIC_CARD_MAX_FUNCTIONS];
    unsigned count = has_room(f) ? 1 : 0; /* else room is awaited, for which this does not look */
    fds[0] = f->channel.fd;
    if (ms == 0) {
        return ETIMEDOUT;
    }
    if (!serve_others(f, fds, &count)) {
        (void)vipl_poll(fds, count, has_room(f) ? ms : ROOM_MS, NULL);
    }
    return 0;
}

static int await(struct rnic_function *f, bool (*has_come)(const struct rnic_function *))
{
    uint64_t deadline = vipl_deadline(REPLY_MS);
    int error = 0;
    while (error == 0 && !has_come(f)) {
        int ms = vipl_ms_left(
            deadline); /* when that is over, one look more: the card may have been kept from it */
        error = f->protocol->serve(f, true);
        error = error != EAGAIN ? error : has_come(f) ? 0 : await_more(f, ms);
        if (error == 0 && !has_come(f) && ms == 0) {
            error = ETIMEDOUT; /* also for a program whose own requests never cease */
        }
    }
    return error;
}

/* Sends the access and awaits its end. */
static int ask_program(struct rnic_function *f, const struct rnic_dma_access *access, uint32_t bytes)
{
    struct rnic_exchange *x = &f->exchange;
    x->data = access->data;
    x->iova = access->iova;
    x->bytes = bytes;
    x->is_write = access->is_write;
    x->failed = false;
    x->id++;
    int error = f->protocol->send_dma(f);
    error = error == 0 ? await(f, has_answer) : error;
    if (error != 0) {
        x->data = NULL;
        x->late++;
    }
    return error;
}

static bool exchange(struct rnic_function *f, const struct rnic_dma_access *access, uint32_t bytes)
{
    struct rnic_exchange *x = &f->exchange;
    x->is_silent = x->is_silent && (x->late > 0 || !has_room(f));
    if (x->is_silent || f->is_over || f->is_blocked || x->most == 0) {
        return false;
    }
    f->adapter->has_held_back = true; /* what comes meanwhile is done when the card has finished */
    int error = await(f, has_room);
    error = error == 0 ? ask_program(f, access, bytes) : error;
    if (error == 0) {
        return !x->failed;
    }
    x->is_silent = error == ETIMEDOUT;
    if (x->is_silent) {
        vipl_log(VIPL_LOG_ERROR, "function %u: its program has not answered for %d ms: the access failed",
                 f->number, (int)REPLY_MS);
    }
    f->is_blocked = error == EBUSY;
    f->is_over = error != ETIMEDOUT && error != EBUSY;
    return false;
}

int rnic_exchange_answer(struct rnic_function *function, uint16_t id, bool failed, const uint8_t *data,
                         size_t bytes)
{
    struct rnic_exchange *x = &function->exchange;
    if (x->data == NULL || id != x->id) {
        bool is_late = x->late > 0;
        x->late -= is_late ? 1 : 0;
        return is_late ? 0 : EPROTO;
    }
    if (!x->is_write && function->adapter->posted == function) {
        function->adapter->posted = NULL;
    }
    x->failed = failed;
    if (!failed && !x->is_write) {
        if (bytes < x->bytes) {
            return EPROTO;
        }
        memcpy(x->data, data, x->bytes);
    }
    x->data = NULL;
    return 0;
}

/* The memory may have been taken from the card meanwhile: then the answer is that, and as good. A
 * program that does not answer in time is as one that does not read. */
void rnic_exchange_flush(struct rnic_adapter *adapter, const struct rnic_function *except)
{
    struct rnic_function *f = adapter->posted;
    uint8_t byte;
    if (f != NULL && f != except) {
        adapter->posted = NULL;
        (void)exchange(f, &(struct rnic_dma_access){f->exchange.iova, &byte, 1, false}, 1);
    }
}

bool rnic_function_dma(struct rnic_function *function, const struct rnic_dma_access *access)
{
    struct rnic_dma_access rest = *access;
    bool good = function->channel.fd >= 0;
    while (good && rest.bytes > 0) {
        uint32_t bytes;
        enum rnic_dma_outcome outcome = rnic_dma_move(&function->dma, &rest, &bytes);
        if (outcome == RNIC_DMA_MESSAGE || (outcome == RNIC_DMA_UNMAPPED && !function->memory_file)) {
            bytes = bytes < function->exchange.most ? bytes : function->exchange.most;
            good = exchange(function, &rest, bytes);
        } else {
            good = outcome == RNIC_DMA_DONE;
        }
        rest.iova += bytes;
        rest.data += bytes;
        rest.bytes -= bytes;
    }
    return good;
}
