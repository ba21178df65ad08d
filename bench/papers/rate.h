/* SPDX-License-Identifier: MIT */
/* How fast RDMA Writes are between models of the card, in simulated time. */
#ifndef BENCH_RATE_H
#define BENCH_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "devices/rnic/card/card.h"

/* Where source and target are. */
enum rate_memory { RATE_HOST, RATE_DRAM, RATE_SRAM };

enum { RATE_MAX_PAIRS = 4 };

struct rate_setup {
    enum rnic_card_profile profile;
    uint32_t mtu;
    uint32_t bytes; /* of a message */
    unsigned pairs; /* connections in each direction: 1 to RATE_MAX_PAIRS */
    unsigned depth; /* messages of a connection that are outstanding */
    enum rate_memory memory;
    bool windows;  /* the source is host memory, and messages go by windows where they may */
    bool one_card; /* the card writes to itself; otherwise one card to another */
    bool both;     /* in both directions at once */
};

/* What a table of rates is asked for. */
struct rate_options {
    bool check;
    bool json;
};

/* Reads --check and --json; for anything else, shows how the program is called and ends it. */
struct rate_options rate_read_options(int argc, char **argv);
/* Whether a rate is within 5 % of what it should be. */
bool rate_is_near(double ours, double wanted);
/* Bytes of a message in each frame, as EFE's MTU has it. */
uint32_t rate_mtu(uint32_t frame_bytes);
/* The rate of each direction, in millions of bytes in a second, from the first post to the last
 * completion. Ends the process with a message if something fails, or arrives wrong. */
double rate_of_writes(const struct rate_setup *setup);

#endif
