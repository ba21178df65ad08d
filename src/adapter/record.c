/* SPDX-License-Identifier: MIT */
/* Recording loads. Without memory for a copy the log ends: what it has until then can be
 * replayed. */
#include "adapter/record.h"

#include <errno.h>
#include <string.h>

#include "os/os.h"
#include "rnic/registers.h"

void rnic_record_init(struct rnic_recorder *recorder, struct rnic_log *log,
                      const struct rnic_card_config *config)
{
    memset(recorder, 0, sizeof(*recorder));
    recorder->log = log;
    recorder->bar4_bytes = (size_t)rnic_card_bar4_bytes(config);
}

void rnic_record_fini(struct rnic_recorder *recorder)
{
    for (unsigned fn = 0; fn < RNIC_CARD_MAX_FUNCTIONS; fn++) {
        vipl_unreserve(recorder->bar2[fn], RNIC_BAR2_BYTES);
        vipl_unreserve(recorder->bar4[fn], recorder->bar4_bytes);
        recorder->bar2[fn] = recorder->bar4[fn] = NULL;
    }
}

/* The copy of a BAR from this offset on, or NULL if it ends before the bytes do. */
static uint8_t *copy_at(const struct rnic_recorder *r, unsigned fn, unsigned bar, uint64_t offset,
                        uint32_t bytes)
{
    uint8_t *copy = bar == 2 ? r->bar2[fn] : bar == 4 ? r->bar4[fn] : NULL;
    size_t all = bar == 2 ? RNIC_BAR2_BYTES : r->bar4_bytes;
    return copy != NULL && bytes <= all && offset <= all - bytes ? copy + offset : NULL;
}

/* Zeroes a copy; there may be none yet. */
static void begin_copy(struct rnic_recorder *r, uint8_t **copy, size_t bytes)
{
    vipl_unreserve(*copy, bytes);
    *copy = vipl_reserve(bytes);
    if (*copy == NULL && r->log->error == 0) {
        r->log->error = ENOMEM;
    }
}

/* What the driver has read over the bus is known to a replay: it finds the same there. */
static void note_read(const struct rnic_recorder *r, const struct rnic_transaction *c)
{
    uint8_t *copy = copy_at(r, c->fn, c->bar, c->address, c->bytes <= 8 ? c->bytes : 8);
    for (unsigned i = 0; copy != NULL && i < c->bytes && i < 8; i++) {
        copy[i] = (uint8_t)(c->value >> 8 * i);
    }
}

void rnic_record_transaction(struct rnic_recorder *recorder, const struct rnic_transaction *transaction)
{
    unsigned fn = transaction->fn;
    switch (transaction->kind) {
    case RNIC_TRANSACTION_ATTACH:
        if ((transaction->value & 1) != 0) {
            begin_copy(recorder, &recorder->bar2[fn], RNIC_BAR2_BYTES);
        }
        if ((transaction->value & 2) != 0) {
            begin_copy(recorder, &recorder->bar4[fn], recorder->bar4_bytes);
        }
        break;
    case RNIC_TRANSACTION_RESET: /* zeroes device memory */
        if (recorder->bar4[fn] != NULL) {
            begin_copy(recorder, &recorder->bar4[fn], recorder->bar4_bytes);
        }
        break;
    case RNIC_TRANSACTION_REGISTER_READ:
        note_read(recorder, transaction);
        break;
    default:
        break;
    }
    recorder->time = transaction->time;
    recorder->loads = 0;
    rnic_log_write(recorder->log, transaction);
}

void rnic_record_loaded(struct rnic_recorder *recorder, unsigned fn, unsigned bar, uint64_t offset,
                        const void *data, uint32_t bytes)
{
    uint8_t *copy = copy_at(recorder, fn, bar, offset, bytes);
    if (copy == NULL) { /* a poisoned DMA, which has its own record */
        return;
    }
    if (memcmp(copy, data, bytes) == 0) {
        recorder->loads++;
        return;
    }
    memcpy(copy, data, bytes);
    rnic_log_write(recorder->log, &(struct rnic_transaction){.time = recorder->time,
                                                             .kind = RNIC_TRANSACTION_LOAD,
                                                             .fn = (uint16_t)fn,
                                                             .bar = (uint8_t)bar,
                                                             .address = offset,
                                                             .value = recorder->loads,
                                                             .bytes = bytes,
                                                             .data = data});
    recorder->loads = 0;
}

void rnic_record_stored(struct rnic_recorder *recorder, unsigned fn, unsigned bar, uint64_t offset,
                        const void *data, uint32_t bytes)
{
    uint8_t *copy = copy_at(recorder, fn, bar, offset, bytes);
    if (copy != NULL) {
        memcpy(copy, data, bytes);
    }
}
