/* SPDX-License-Identifier: MIT */
/*
 * Models of the card in this process, joined by wires, in simulated time: each has one function,
 * which the driver's verbs take over by vipl_rnic_start(). Nothing here reads a clock; the time
 * moves from one event to the next, and only inside sim_go_on(), which the driver's own waits call
 * too. One thread.
 */
#ifndef BENCH_SIM_H
#define BENCH_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/rnic/verbs/verbs.h"
#include "devices/rnic/card/card.h"

/* Each card has so much device memory, the DRAM first. */
enum { SIM_MAX_CARDS = 4, SIM_DRAM_BYTES = 2 << 20, SIM_SRAM_BYTES = 16 << 10 };

struct sim;

struct sim_config {
    unsigned cards;
    uint32_t mtu;
    enum rnic_card_profile profile;
    const char
        *wire; /* what all frames to a card pass, as rnic_impair_parse() has it; it has its own for each */
};

/* Ends the process with a message where something is missing. */
struct sim *sim_create(const struct sim_config *config);
void sim_destroy(struct sim *sim);
/* The access to the card's function, for one vipl_rnic_start(). */
struct rnic_pci *sim_function(struct sim *sim, unsigned card);
/* A store of the processor to BAR0 of a card's function: `count` bytes, 1 to 8, in the order of
 * addresses. */
void sim_store(struct sim *sim, unsigned card, uint32_t offset, const uint8_t *bytes, unsigned count);
uint64_t sim_now(const struct sim *sim); /* ns */
/* Everything that is due now is done, what the driver has just posted included. */
void sim_run(struct sim *sim);
/* The time goes on to what comes next; to be called when there is nothing more to do now. False:
 * nothing is to come. */
bool sim_go_on(struct sim *sim);

#endif
