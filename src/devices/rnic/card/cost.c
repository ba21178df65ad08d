/* SPDX-License-Identifier: MIT */
/*
 * Costs. The card is modelled as one engine that does one thing after the other; a profile says how
 * long each takes. With simulated time the model's clock runs on by that much, so that what follows
 * happens later; otherwise the costs are only added up.
 *
 * Sources of the numbers: the papers' figures where they give one (a register read of 0.58 us; 330
 * MB/s of RDMA over a 400 MB/s port), otherwise what buses and memories of the time did.
 */
#include "devices/rnic/card/cost.h"

struct profile {
    uint32_t read_latency_ns;  /* of a DMA read, until its first byte is there */
    uint32_t write_latency_ns; /* of a DMA write: posted, so only the engine's own step */
    /* rate of the bus and the memory behind it, in millions of bytes in a second */
    uint32_t bus_mbytes;
    uint32_t message_ns; /* the engine's own work for a message ... */
    uint32_t frame_ns;   /* ... and for a frame, made or taken */
    uint32_t wire_delay_ns;
    uint64_t wire_rate; /* bits in a second; 0: any number */
};

static const struct profile profiles[] = {
    [RNIC_PROFILE_NONE] = {0, 0, 0, 0, 0, 0, 0},
    [RNIC_PROFILE_EXPETHER_2008] = {580, 100, 800, 400, 150, 1000, UINT64_C(10000000000)},
    [RNIC_PROFILE_MARTINI_2002] = {450, 120, 400, 600, 100, 300, UINT64_C(8000000000)},
    [RNIC_PROFILE_MODERN] = {300, 20, 12000, 50, 10, 500, UINT64_C(100000000000)},
};

static const struct profile *profile_of(const struct rnic_card_config *config)
{
    return &profiles[config->profile];
}

static void spend(struct rnic_card *card, unsigned fn, uint64_t ns)
{
    struct rnic_state *state = rnic_state(card);
    rnic_count(card, fn, RNIC_COUNT_COST_NS, ns);
    state->now += state->config.simulated ? ns : 0;
}

void rnic_cost_dma(struct rnic_card *card, unsigned fn, bool reads, uint32_t bytes)
{
    const struct profile *profile = profile_of(&rnic_state(card)->config);
    if (profile->bus_mbytes != 0) {
        uint64_t latency = reads ? profile->read_latency_ns : profile->write_latency_ns;
        spend(card, fn, latency + (uint64_t)bytes * 1000 / profile->bus_mbytes);
    }
}

void rnic_cost_request(struct rnic_card *card, unsigned fn, bool first)
{
    const struct profile *profile = profile_of(&rnic_state(card)->config);
    spend(card, fn, profile->frame_ns + (first ? profile->message_ns : 0u));
}

void rnic_cost_arrival(struct rnic_card *card, unsigned fn)
{
    spend(card, fn, profile_of(&rnic_state(card)->config)->frame_ns);
}

void rnic_cost_wire(const struct rnic_card_config *config, struct rnic_impair_config *out)
{
    const struct profile *profile = profile_of(config);
    *out = (struct rnic_impair_config){.seed = config->seed, .queue = 1000};
    if (config->simulated) {
        out->rate = profile->wire_rate;
        out->delay_ns = profile->wire_delay_ns;
        out->queue = 1000000;
    }
}
