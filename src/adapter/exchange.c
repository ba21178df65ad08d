/* SPDX-License-Identifier: MIT */
/*
 * The card's accesses to a program's memory, one run after the other: made here where this process
 * can reach it, else by a message and its reply. The card, and with it every other function, waits
 * for the reply, so that the time for it is short, and a program that once let it pass is not asked
 * again before it has answered.
 *
 * Meanwhile the program's own requests are served, as far as they do not change the card: QEMU
 * answers only once it has its reply. A request that cannot be served ends the exchange.
 */
#include "adapter/function.h"

#include <errno.h>

#include "adapter/adapter.h"
#include "base/deadline.h"

enum { REPLY_MS = 1000, ROOM_MS = 1 };

static int send_command(struct rnic_function *f)
{
    struct rnic_exchange *x = &f->exchange;
    uint8_t message[VFU_HEADER_BYTES + VFU_DMA_BYTES];
    uint32_t data_bytes = x->is_write ? x->bytes : 0;
    struct vfu_header header = {++x->id, x->is_write ? VFU_DMA_WRITE : VFU_DMA_READ,
                                (uint32_t)sizeof(message) + data_bytes, 0, 0};
    vfu_header_write(message, &header);
    vfu_dma_write(message + VFU_HEADER_BYTES, &(struct vfu_dma){x->iova, x->bytes});
    return vipl_framer_send(&f->channel, message, sizeof(message), x->data, data_bytes, NULL, 0);
}

/* Nothing has come: waits for more; `ms` are left. */
static int await_more(const struct rnic_function *f, int ms)
{
    if (ms == 0) {
        return ETIMEDOUT;
    }
    bool is_behind =
        f->channel.out_bytes > 0; /* then what is awaited is room, for which this does not look */
    (void)vipl_poll(is_behind ? NULL : &f->channel.fd, is_behind ? 0 : 1, is_behind ? ROOM_MS : ms, NULL);
    return 0;
}

static int await_dma_reply(struct rnic_function *f)
{
    uint64_t deadline = vipl_deadline(REPLY_MS);
    int error = 0;
    while (error == 0 && f->exchange.data != NULL) {
        int ms = vipl_ms_left(
            deadline); /* when that is over, one look more: the card may have been kept from it */
        error = rnic_request_serve(f, true);
        error = error == EAGAIN ? await_more(f, ms) : error;
        if (error == 0 && f->exchange.data != NULL && ms == 0) {
            error = ETIMEDOUT; /* also for a program whose own requests never cease */
        }
    }
    return error;
}

static bool exchange(struct rnic_function *f, const struct rnic_dma_access *access, uint32_t bytes)
{
    struct rnic_exchange *x = &f->exchange;
    if (x->is_silent || f->is_over || f->is_blocked || x->most == 0) {
        return false;
    }
    x->data = access->data;
    x->iova = access->iova;
    x->bytes = bytes;
    x->is_write = access->is_write;
    x->failed = false;
    f->adapter->has_held_back = true; /* what comes meanwhile is done when the card has finished */
    int error = send_command(f);
    error = error == 0 ? await_dma_reply(f) : error;
    if (error == 0) {
        return !x->failed;
    }
    x->data = NULL;
    x->late++;
    x->is_silent = error == ETIMEDOUT;
    f->is_blocked = error == EBUSY;
    f->is_over = error != ETIMEDOUT && error != EBUSY;
    return false;
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
