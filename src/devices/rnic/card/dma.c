/* SPDX-License-Identifier: MIT */
/* DMA: the only way by which the card touches host memory. Counts, costs, faults and the
 * transaction log have their place here. */
#include "devices/rnic/card/dma.h"

#include "devices/rnic/card/cost.h"
#include "devices/rnic/card/error.h"
#include "devices/rnic/card/faults.h"
#include "devices/rnic/card/record.h"
#include "rnic/entry.h"

enum { BUS_MASTER = 4 };

void rnic_transact(struct rnic_card *card, struct rnic_transaction transaction)
{
    if (card->host->transaction != NULL) {
        struct rnic_state *state = rnic_state(card);
        uint64_t now = rnic_cost_now(card);
        state->crossed = now > state->crossed ? now : state->crossed;
        transaction.time = state->crossed;
        card->host->transaction(card->context, &transaction);
    }
}

static bool may_access(struct rnic_card *card, unsigned fn, uint64_t iova, uint32_t bytes)
{
    return (rnic_fn(card, fn)->pci_command & BUS_MASTER) != 0 && iova + bytes - 1 >= iova;
}

/* What follows each DMA, whether it went well or not. */
static bool finish_dma(struct rnic_card *card, enum rnic_transaction_kind kind, unsigned fn, uint32_t object,
                       uint64_t iova, const void *data, uint32_t bytes, bool good)
{
    bool reads = kind == RNIC_TRANSACTION_DMA_READ;
    rnic_count(card, fn, reads ? RNIC_COUNT_DMA_READS : RNIC_COUNT_DMA_WRITES, 1);
    rnic_cost_dma(card, fn, reads, bytes);
    rnic_fault_dma(card, fn);
    rnic_transact(card, (struct rnic_transaction){.kind = kind,
                                                  .fn = (uint16_t)fn,
                                                  .failed = !good,
                                                  .address = iova,
                                                  .bytes = bytes,
                                                  .data = good || !reads ? data : NULL});
    if (!good) {
        rnic_count(card, fn, RNIC_COUNT_DMA_FAILED, 1);
        rnic_error_log(card, fn, RNIC_ERROR_DMA, object, iova);
    }
    return good;
}

bool rnic_dma_read(struct rnic_card *card, unsigned fn, uint32_t object, uint64_t iova, void *out,
                   uint32_t bytes)
{
    if (bytes == 0) {
        return true;
    }
    bool good = may_access(card, fn, iova, bytes) && !rnic_fault_strikes(card, fn, RNIC_FAULT_DMA_FAIL) &&
                card->host->dma_read(card->context, fn, iova, out, bytes);
    if (good && rnic_fault_strikes(card, fn, RNIC_FAULT_DMA_POISON)) {
        rnic_fault_poison(card, out, bytes);
        rnic_loaded(card, fn, RNIC_POISONED_DMA, iova, out, bytes);
    }
    return finish_dma(card, RNIC_TRANSACTION_DMA_READ, fn, object, iova, out, bytes, good);
}

bool rnic_dma_write(struct rnic_card *card, unsigned fn, uint32_t object, uint64_t iova, const void *in,
                    uint32_t bytes)
{
    if (bytes == 0) {
        return true;
    }
    bool good = may_access(card, fn, iova, bytes) && !rnic_fault_strikes(card, fn, RNIC_FAULT_DMA_FAIL) &&
                card->host->dma_write(card->context, fn, iova, in, bytes);
    return finish_dma(card, RNIC_TRANSACTION_DMA_WRITE, fn, object, iova, in, bytes, good);
}

bool rnic_dma_publish(struct rnic_card *card, unsigned fn, uint32_t object, uint64_t iova, uint32_t value)
{
    uint8_t word[4];
    rnic_put32(word, value, rnic_fn(card, fn)->big != 0);
    bool good = may_access(card, fn, iova, sizeof(word)) &&
                !rnic_fault_strikes(card, fn, RNIC_FAULT_DMA_FAIL) &&
                card->host->dma_publish(card->context, fn, iova, word);
    return finish_dma(card, RNIC_TRANSACTION_DMA_WRITE, fn, object, iova, word, sizeof(word), good);
}
