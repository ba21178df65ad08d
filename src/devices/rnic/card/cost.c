/* SPDX-License-Identifier: MIT */
/*
 * Costs. The card has an engine that sends and one that receives; each does one operation after the
 * other, and the two wait for each other at the ports of memories. A profile says how long each
 * step takes. With simulated time an operation begins when its engine is free, runs the engine's
 * clock on, and what it does leaves the card at that clock; otherwise the costs are only added up,
 * without waiting.
 *
 * All effects of an operation on the state of the card happen when it begins. So operations begin
 * in the order of time, the time that EFE is given never decreases, and only the ends overlap.
 *
 * Sources of the numbers: the papers' figures where they give one (a register read of 0.58 us; 330
 * MB/s of RDMA over a port of 400 MB/s; 490 + 290 + 500 ns for a packet of 464 bytes that arrives),
 * otherwise what buses and memories of the time did.
 */
#include "devices/rnic/card/cost.h"

/* An engine's own work. */
struct own_work {
    uint32_t message_ns; /* for a message ... */
    uint32_t frame_ns;   /* ... and for each of its frames, the first one as well */
};

/* A memory, behind the bus or on the card. */
struct memory {
    uint32_t read_latency_ns;  /* until the first byte is there */
    uint32_t write_latency_ns; /* writes are posted, so only the engine's own step */
    uint32_t mbytes;           /* rate of its port, in millions of bytes in a second; 0: any */
};

struct profile {
    struct memory host;
    bool each_way; /* the bus moves bytes in both directions at once: it has a port for each */
    struct memory dram;
    struct memory sram;
    struct own_work work[RNIC_ENGINES];
    uint32_t stored_ns; /* for the first frame of a message that the processor has stored, instead */
    uint32_t wire_delay_ns;
    uint64_t wire_rate; /* bits in a second; 0: any number */
};

/*
 * Martini: frames of 2,048 bytes leave DRAM, and arrive there, at 330 MB/s: 1,086 ns beside the
 * port's 5,120. A message of one frame arrives in 490 + 290 + 500 ns beside the port. Explained:
 * without the 500. Overlapped: without the 490 either, which pass during the DMA of the message
 * before.
 *
 * Capture: frames of 1,500 bytes at 32 Gb/s, 375 ns, of which the port's 38 Gb/s take 315.
 */
static const struct profile profiles[] = {
    [RNIC_PROFILE_NONE] = {.wire_rate = 0},
    [RNIC_PROFILE_EXPETHER_2008] = {.host = {580, 100, 800},
                                    .each_way = true,
                                    .dram = {100, 20, 800},
                                    .sram = {20, 20, 1600},
                                    .work = {{400, 150}, {0, 150}},
                                    .stored_ns = 150,
                                    .wire_delay_ns = 1000,
                                    .wire_rate = UINT64_C(10000000000)},
    [RNIC_PROFILE_MARTINI_2002] = {.host = {450, 120, 400},
                                   .dram = {150, 20, 400},
                                   .sram = {20, 20, 400},
                                   .work = {{600, 936}, {194, 1066}},
                                   .stored_ns = 300,
                                   .wire_delay_ns = 300,
                                   .wire_rate = UINT64_C(8000000000)},
    [RNIC_PROFILE_MODERN] = {.host = {300, 20, 12000},
                             .each_way = true,
                             .dram = {60, 10, 12000},
                             .sram = {5, 5, 50000},
                             .work = {{50, 10}, {0, 10}},
                             .stored_ns = 10,
                             .wire_delay_ns = 500,
                             .wire_rate = UINT64_C(100000000000)},
    [RNIC_PROFILE_CAPTURE_2020] = {.host = {20, 20, 4750},
                                   .each_way = true,
                                   .dram = {20, 20, 4750},
                                   .sram = {5, 5, 4750},
                                   .work = {{0, 40}, {0, 40}},
                                   .stored_ns = 40,
                                   .wire_delay_ns = 500,
                                   .wire_rate = UINT64_C(40000000000)},
    [RNIC_PROFILE_MARTINI_EXPLAINED] = {.host = {450, 120, 400},
                                        .dram = {150, 20, 400},
                                        .sram = {20, 20, 400},
                                        .work = {{600, 936}, {194, 566}},
                                        .stored_ns = 300,
                                        .wire_delay_ns = 300,
                                        .wire_rate = UINT64_C(8000000000)},
    [RNIC_PROFILE_MARTINI_OVERLAPPED] = {.host = {450, 120, 400},
                                         .dram = {150, 20, 400},
                                         .sram = {20, 20, 400},
                                         .work = {{600, 936}, {194, 76}},
                                         .stored_ns = 300,
                                         .wire_delay_ns = 300,
                                         .wire_rate = UINT64_C(8000000000)},
};

static const struct profile *profile_of(const struct rnic_card *card)
{
    return &profiles[rnic_state(card)->config.profile];
}

void rnic_cost_init(struct rnic_card *card)
{
    struct rnic_state *state = rnic_state(card);
    state->engine = RNIC_ENGINES;
    state->port[RNIC_PORT_HOST].rate = profile_of(card)->host.mbytes;
    state->port[RNIC_PORT_HOST_WRITES].rate = profile_of(card)->host.mbytes;
    state->port[RNIC_PORT_DRAM].rate = profile_of(card)->dram.mbytes;
    state->port[RNIC_PORT_SRAM].rate = profile_of(card)->sram.mbytes;
}

/* --- operations --- */

bool rnic_cost_is_free(const struct rnic_card *card, enum rnic_engine_kind engine)
{
    const struct rnic_state *state = rnic_state(card);
    return state->engines[engine].free <= state->now;
}

void rnic_cost_begin(struct rnic_card *card, enum rnic_engine_kind engine)
{
    struct rnic_state *state = rnic_state(card);
    uint64_t free = state->engines[engine].free;
    state->engine = (uint8_t)engine;
    state->clock = free > state->now ? free : state->now;
}

void rnic_cost_end(struct rnic_card *card)
{
    struct rnic_state *state = rnic_state(card);
    state->engines[state->engine].free = state->clock;
    state->engine = RNIC_ENGINES;
}

enum rnic_engine_kind rnic_cost_hand_over(struct rnic_card *card, enum rnic_engine_kind engine)
{
    struct rnic_state *state = rnic_state(card);
    enum rnic_engine_kind from = (enum rnic_engine_kind)state->engine;
    if (from != engine && from < RNIC_ENGINES) {
        uint64_t free = state->engines[engine].free;
        state->engines[from].free = state->clock;
        state->engine = (uint8_t)engine;
        state->clock = free > state->clock ? free : state->clock;
    }
    return from;
}

void rnic_cost_take_back(struct rnic_card *card, enum rnic_engine_kind engine)
{
    struct rnic_state *state = rnic_state(card);
    if (state->engine != engine) {
        state->engines[state->engine].free = state->clock;
        state->engine = (uint8_t)engine;
        state->clock = state->engines[engine].free;
    }
}

uint64_t rnic_cost_now(const struct rnic_card *card)
{
    const struct rnic_state *state = rnic_state(card);
    return state->engine < RNIC_ENGINES ? state->clock : state->now;
}

uint64_t rnic_cost_deadline(const struct rnic_card *card)
{
    const struct rnic_state *state = rnic_state(card);
    uint64_t due = UINT64_MAX;
    for (unsigned i = 0; i < RNIC_ENGINES; i++) {
        uint64_t free = state->engines[i].free;
        due = free > state->now && free < due ? free : due;
    }
    return due;
}

/* --- steps --- */

static bool passes_time(const struct rnic_state *state)
{
    return state->config.simulated && state->engine < RNIC_ENGINES;
}

static void spend(struct rnic_card *card, unsigned fn, uint64_t ns)
{
    struct rnic_state *state = rnic_state(card);
    rnic_count(card, fn, RNIC_COUNT_COST_NS, ns);
    state->clock += passes_time(state) ? ns : 0;
}

/* The engine works and waits at the port; what it waits is no cost. */
static void move(struct rnic_card *card, unsigned fn, enum rnic_port_kind kind, uint32_t bytes)
{
    struct rnic_state *state = rnic_state(card);
    struct rnic_port *port = &state->port[kind];
    rnic_count(card, fn, RNIC_COUNT_COST_NS, rnic_port_takes(port, bytes));
    if (passes_time(state)) {
        state->clock = rnic_port_move(port, state->clock, bytes);
    }
}

void rnic_cost_dma(struct rnic_card *card, unsigned fn, bool reads, uint32_t bytes)
{
    const struct profile *profile = profile_of(card);
    spend(card, fn, reads ? profile->host.read_latency_ns : profile->host.write_latency_ns);
    move(card, fn, profile->each_way && !reads ? RNIC_PORT_HOST_WRITES : RNIC_PORT_HOST, bytes);
}

void rnic_cost_devmem(struct rnic_card *card, unsigned fn, enum rnic_port_kind port, bool reads,
                      uint32_t bytes)
{
    const struct profile *profile = profile_of(card);
    const struct memory *memory = port == RNIC_PORT_SRAM ? &profile->sram : &profile->dram;
    spend(card, fn, reads ? memory->read_latency_ns : memory->write_latency_ns);
    move(card, fn, port, bytes);
}

void rnic_cost_frame(struct rnic_card *card, unsigned fn, enum rnic_engine_kind engine, bool first)
{
    const struct own_work *work = &profile_of(card)->work[engine];
    spend(card, fn, work->frame_ns + (first ? work->message_ns : 0u));
}

void rnic_cost_stored(struct rnic_card *card, unsigned fn)
{
    spend(card, fn, profile_of(card)->stored_ns);
}

void rnic_cost_wire(const struct rnic_card_config *config, struct rnic_impair_config *out)
{
    const struct profile *profile = &profiles[config->profile];
    *out = (struct rnic_impair_config){.seed = config->seed, .queue = 1000};
    if (config->simulated) {
        out->rate = profile->wire_rate;
        out->delay_ns = profile->wire_delay_ns;
        out->queue = 1000000;
    }
}
