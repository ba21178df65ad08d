/* SPDX-License-Identifier: MIT */
/*
 * Enable, reset and catastrophe of a function. A reset frees what the function owns and nothing
 * else: the tables say which rows those are.
 */
#include "devices/rnic/card/reset.h"

#include <string.h>

#include "devices/rnic/card/claim.h"
#include "devices/rnic/card/config.h"
#include "devices/rnic/card/cq.h"
#include "devices/rnic/card/devmem.h"
#include "devices/rnic/card/dma.h"
#include "devices/rnic/card/doorbell.h"
#include "devices/rnic/card/error.h"
#include "devices/rnic/card/event.h"
#include "devices/rnic/card/interrupt.h"
#include "devices/rnic/card/listen.h"
#include "devices/rnic/card/mr.h"
#include "devices/rnic/card/numbers.h"
#include "devices/rnic/card/qp.h"
#include "devices/rnic/card/request.h"
#include "devices/rnic/card/schedule.h"
#include "devices/rnic/card/wire.h"

/* Rings lie in host memory. */
static bool good_ring(const struct rnic_card *card, unsigned fn, uint64_t base, uint32_t log2)
{
    return base % 64 == 0 && !rnic_devmem_is_bus(card, fn, base) && log2 >= RNIC_LOG2_MIN &&
           log2 <= RNIC_COMMAND_LOG2_MAX;
}

void rnic_enable(struct rnic_card *card, unsigned fn)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    bool good = good_ring(card, fn, f->command_base, f->command_log2) &&
                good_ring(card, fn, f->answer_base, f->command_log2) &&
                good_ring(card, fn, f->event_base, f->event_log2);
    if (!good) {
        rnic_error_log(card, fn, RNIC_ERROR_BAD_SETUP, 0, 0);
        return;
    }
    f->command = (struct rnic_ring){.base = f->command_base, .log2 = f->command_log2};
    f->answer = (struct rnic_ring){.base = f->answer_base, .log2 = f->command_log2};
    f->event = (struct rnic_ring){.base = f->event_base, .log2 = f->event_log2};
    f->enabled = true;
    f->scan_all = true;
    rnic_requests_reset(card, fn);
    rnic_wire_enable(card, fn);
    rnic_state(card)->kick = true;
}

static void free_objects(struct rnic_card *card, unsigned fn)
{
    struct rnic_state *state = rnic_state(card);
    for (uint32_t qp = 0; rnic_numbers_find(card, &state->qps, fn, &qp); qp++) {
        rnic_qp_free(card, qp);
    }
    for (uint32_t cq = 0; rnic_numbers_find(card, &state->cqs, fn, &cq); cq++) {
        rnic_cq_free(card, cq);
    }
    for (uint32_t mr = 0; rnic_numbers_find(card, &state->mrs, fn, &mr); mr++) {
        rnic_mr_free(card, fn, mr);
    }
    rnic_listen_forget(card, fn);
    rnic_claim_forget(card, fn);
}

/* What a reset leaves of the function's row: configuration space, the MSI-X table, and its place in
 * the scheduler's list. */
static void clear_registers(struct rnic_fn *f)
{
    struct rnic_fn kept = *f;
    memset(f, 0, sizeof(*f));
    f->pci_command = kept.pci_command;
    f->msix_control = kept.msix_control;
    f->device_control = kept.device_control;
    f->interrupt_line = kept.interrupt_line;
    memcpy(f->bar, kept.bar, sizeof(f->bar));
    memcpy(f->vector, kept.vector, sizeof(f->vector));
    f->runnable = kept.runnable;
    f->behind = kept.behind;
    f->serial = kept.serial;
    f->requests = kept.requests;
    rnic_interrupt_reset(f);
}

void rnic_reset(struct rnic_card *card, unsigned fn)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    rnic_transact(card, (struct rnic_transaction){.kind = RNIC_TRANSACTION_RESET, .fn = (uint16_t)fn});
    f->enabled = false;
    free_objects(card, fn);
    rnic_wire_reset(card, fn);
    rnic_doorbell_clear(card, fn);
    rnic_devmem_reset(card, fn);
    rnic_state(card)->cut -= (uint32_t)f->cut + f->reset_due;
    rnic_state(card)->lost_fns -= f->lost;
    clear_registers(f);
    rnic_state(card)->kick = true;
}

void rnic_reset_whole(struct rnic_card *card, unsigned fn)
{
    rnic_reset(card, fn);
    rnic_config_reset(rnic_fn(card, fn));
    rnic_msix_reset(rnic_fn(card, fn));
}
