/* SPDX-License-Identifier: MIT */
/*
 * Interrupts of a function. A vector that must not fire is pending; one that must not fire so soon
 * is delayed. Neither is ever lost: moderation only puts off.
 */
#include "devices/rnic/card/interrupt.h"

#include "devices/rnic/card/config.h"
#include "devices/rnic/card/dma.h"
#include "devices/rnic/card/faults.h"

enum { VECTOR_MASKED = 1, TABLE_BYTES = 16 * RNIC_VECTORS };

static bool is_masked(const struct rnic_fn *f, unsigned vector)
{
    bool open = (f->msix_control & RNIC_MSIX_ENABLE) != 0 && (f->msix_control & RNIC_MSIX_MASK_ALL) == 0 &&
                (f->pci_command & RNIC_PCI_BUS_MASTER) != 0;
    return !open || (f->vector[vector].control & VECTOR_MASKED) != 0 || (f->int_mask & 1u << vector) != 0;
}

static void fire(struct rnic_card *card, unsigned fn, unsigned vector)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    f->pending &= ~(1u << vector);
    f->delayed &= ~(1u << vector);
    f->vector[vector].causes = 0;
    f->vector[vector].quiet_until = rnic_state(card)->now + (uint64_t)f->int_delay_us * 1000;
    if (rnic_fault_strikes(card, fn, RNIC_FAULT_INTERRUPT_LOST)) {
        return;
    }
    rnic_count(card, fn, RNIC_COUNT_INTERRUPTS, 1);
    rnic_transact(card, (struct rnic_transaction){
                            .kind = RNIC_TRANSACTION_INTERRUPT, .fn = (uint16_t)fn, .value = vector});
    card->host->interrupt(card->context, fn, vector);
}

static void delay(struct rnic_card *card, struct rnic_fn *f, unsigned vector)
{
    struct rnic_state *state = rnic_state(card);
    uint64_t due = f->vector[vector].quiet_until;
    f->delayed |= 1u << vector;
    state->interrupt_due = due < state->interrupt_due ? due : state->interrupt_due;
}

/* Fires, unless it is masked or it is too soon. */
static void try_to_fire(struct rnic_card *card, unsigned fn, unsigned vector)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    struct rnic_vector *row = &f->vector[vector];
    if (is_masked(f, vector)) {
        f->pending |= 1u << vector;
        f->delayed &= ~(1u << vector);
    } else if (rnic_state(card)->now >= row->quiet_until ||
               (f->int_count != 0 && row->causes >= f->int_count)) {
        fire(card, fn, vector);
    } else {
        delay(card, f, vector);
    }
}

void rnic_interrupt_raise(struct rnic_card *card, unsigned fn, unsigned vector)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    f->int_cause |= 1u << vector;
    f->vector[vector].causes++;
    if (rnic_fault_strikes(card, fn, RNIC_FAULT_INTERRUPT_LATE)) {
        f->vector[vector].quiet_until = rnic_state(card)->now + rnic_fault_lateness(card);
    }
    try_to_fire(card, fn, vector);
    if (rnic_fault_strikes(card, fn, RNIC_FAULT_INTERRUPT_SPURIOUS) && !is_masked(f, vector)) {
        fire(card, fn, vector);
    }
}

void rnic_interrupt_unmasked(struct rnic_card *card, unsigned fn)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    for (unsigned vector = 0; vector < RNIC_VECTORS && f->pending != 0; vector++) {
        if ((f->pending & 1u << vector) != 0 && !is_masked(f, vector)) {
            f->pending &= ~(1u << vector);
            try_to_fire(card, fn, vector);
        }
    }
}

static void advance_function(struct rnic_card *card, unsigned fn)
{
    struct rnic_fn *f = rnic_fn(card, fn);
    for (unsigned vector = 0; vector < RNIC_VECTORS && f->delayed != 0; vector++) {
        if ((f->delayed & 1u << vector) != 0) {
            try_to_fire(card, fn, vector);
        }
    }
}

void rnic_interrupt_advance(struct rnic_card *card)
{
    struct rnic_state *state = rnic_state(card);
    if (state->now < state->interrupt_due) {
        return;
    }
    state->interrupt_due = UINT64_MAX;
    for (unsigned fn = 0; fn < state->config.functions; fn++) {
        advance_function(card, fn);
    }
}

void rnic_interrupt_reset(struct rnic_fn *f)
{
    f->pending = 0;
    f->delayed = 0;
    f->int_cause = 0;
    f->int_mask = 0;
    f->int_delay_us = 0;
    f->int_count = 0;
    for (unsigned vector = 0; vector < RNIC_VECTORS; vector++) {
        f->vector[vector].quiet_until = 0;
        f->vector[vector].causes = 0;
    }
}

void rnic_msix_reset(struct rnic_fn *f)
{
    for (unsigned vector = 0; vector < RNIC_VECTORS; vector++) {
        f->vector[vector] = (struct rnic_vector){.control = VECTOR_MASKED};
    }
}

static uint32_t *table_word(struct rnic_vector *row, uint32_t word)
{
    uint32_t *const words[] = {&row->address_lo, &row->address_hi, &row->data, &row->control};
    return words[word % 4];
}

uint32_t rnic_msix_read(const struct rnic_fn *f, uint32_t offset)
{
    uint32_t at = offset - RNIC_MSIX_TABLE;
    if (offset == RNIC_MSIX_PBA) {
        return f->pending;
    }
    if (at >= TABLE_BYTES) {
        return 0;
    }
    struct rnic_vector row = f->vector[at / 16];
    return *table_word(&row, at / 4);
}

void rnic_msix_write(struct rnic_card *card, unsigned fn, uint32_t offset, uint32_t value)
{
    uint32_t at = offset - RNIC_MSIX_TABLE;
    if (at >= TABLE_BYTES) {
        return;
    }
    uint32_t word = at / 4 % 4;
    uint32_t kept = word == 0 ? value & ~3u : word == 3 ? value & VECTOR_MASKED : value;
    *table_word(&rnic_fn(card, fn)->vector[at / 16], word) = kept;
    rnic_interrupt_unmasked(card, fn);
}
