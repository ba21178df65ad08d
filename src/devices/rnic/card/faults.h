/* SPDX-License-Identifier: MIT */
/*
 * Faults of the card, by a plan: a list of items NAME[=WHEN], separated by commas. WHEN is a
 * probability, or @N: the N-th time that it could happen, or @N/M: and each M-th time after that;
 * without it: each time. "seed=N" is of the probabilities, "late=N": microseconds that late things
 * are late, 1,000 if there is none.
 *
 * | name | what happens | |---|---| | dma_fail | the bus refuses a DMA | | dma_late | the function
 * does nothing more for that time after a DMA | | dma_poison | a DMA read brings wrong bytes | |
 * doorbell_late | the function's doorbells are not looked at for that time | | completion_late | a
 * completion entry has its OWNER word so much later, and all behind it in the queue | |
 * interrupt_lost, interrupt_late, interrupt_spurious | an interrupt does not come, comes late,
 * comes twice | | command_fail | a command is answered DMA and not executed | | command_timeout | a
 * command and all behind it are not answered | | removed | at a register read, the card is gone:
 * registers read all ones, nothing happens any more | | reset | at a DMA, the function is reset | |
 * link_down | at a frame that leaves by the wire, the link goes down for that time | |
 * memory_flip | at a read of device memory, a bit of it flips, and stays so | | window_lost | the
 * card takes a slot of a window for one that is being stored to | | aotf_full | a store into
 * the AOTF space finds no place |
 */
#ifndef DEVICES_RNIC_CARD_FAULTS_H
#define DEVICES_RNIC_CARD_FAULTS_H

#include "devices/rnic/card/state.h"

enum rnic_fault {
    RNIC_FAULT_DMA_FAIL,
    RNIC_FAULT_DMA_LATE,
    RNIC_FAULT_DMA_POISON,
    RNIC_FAULT_DOORBELL_LATE,
    RNIC_FAULT_COMPLETION_LATE,
    RNIC_FAULT_INTERRUPT_LOST,
    RNIC_FAULT_INTERRUPT_LATE,
    RNIC_FAULT_INTERRUPT_SPURIOUS,
    RNIC_FAULT_COMMAND_FAIL,
    RNIC_FAULT_COMMAND_TIMEOUT,
    RNIC_FAULT_REMOVED,
    RNIC_FAULT_RESET,
    RNIC_FAULT_LINK_DOWN,
    RNIC_FAULT_MEMORY_FLIP,
    RNIC_FAULT_WINDOW_LOST,
    RNIC_FAULT_AOTF_FULL,
    RNIC_FAULT_KINDS
};

size_t rnic_fault_bytes(void);
/* Turns the plan and its state around, for a card that a CPU of the other byte order has saved.
 * Returns false if this CPU has another structure. */
bool rnic_fault_swap(struct rnic_card *card);
/* As rnic_card_faults(). */
bool rnic_fault_plan(struct rnic_card *card, const char *text, char *error, size_t error_bytes);

/* It could happen now: does it? */
bool rnic_fault_strikes(struct rnic_card *card, unsigned fn, enum rnic_fault fault);
/* How late late things are, in nanoseconds. */
uint64_t rnic_fault_lateness(const struct rnic_card *card);
/* What follows a DMA: the function may be late, or to be reset. */
void rnic_fault_dma(struct rnic_card *card, unsigned fn);
/* A doorbell was found: whether it is to be looked at later. */
bool rnic_fault_doorbell(struct rnic_card *card, unsigned fn);
/* Returns the number of a bit that is chosen at random among those of `bytes` bytes. */
uint32_t rnic_fault_bit(struct rnic_card *card, uint32_t bytes);
/* Changes some of the bytes. */
void rnic_fault_poison(struct rnic_card *card, uint8_t *bytes, uint32_t count);
/* A completion entry was written: whether its OWNER word is to wait; and which queue's may wait no
 * longer. */
bool rnic_fault_keeps_back(struct rnic_card *card, uint32_t cq);
bool rnic_fault_releases(struct rnic_card *card, uint32_t *cq);
/* The queue is no more. */
void rnic_fault_forgets(struct rnic_card *card, uint32_t cq);
/* A frame is about to leave by the wire: whether the link goes down; and whether it is up again. */
bool rnic_fault_link(struct rnic_card *card);
bool rnic_fault_link_returns(struct rnic_card *card);
/* What was late until now happens. */
void rnic_fault_advance(struct rnic_card *card);
uint64_t rnic_fault_deadline(const struct rnic_card *card);

#endif
