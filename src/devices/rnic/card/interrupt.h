/* SPDX-License-Identifier: MIT */
/* MSI-X: causes, masks, pending bits, moderation. */
#ifndef DEVICES_RNIC_CARD_INTERRUPT_H
#define DEVICES_RNIC_CARD_INTERRUPT_H

#include "devices/rnic/card/state.h"

/* There is a reason for the vector to fire: it does, or will when it may. */
void rnic_interrupt_raise(struct rnic_card *card, unsigned fn, unsigned vector);
/* A mask may have been cleared: what is pending fires. */
void rnic_interrupt_unmasked(struct rnic_card *card, unsigned fn);
/* What was delayed until now fires. */
void rnic_interrupt_advance(struct rnic_card *card);
/* The function's interrupts as after its reset; the table and the masks of PCI stay. */
void rnic_interrupt_reset(struct rnic_fn *f);

/* The MSI-X table and the pending bits, words of BAR0. */
uint32_t rnic_msix_read(const struct rnic_fn *f, uint32_t offset);
void rnic_msix_write(struct rnic_card *card, unsigned fn, uint32_t offset, uint32_t value);
void rnic_msix_reset(struct rnic_fn *f);

#endif
