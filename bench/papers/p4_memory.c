/* SPDX-License-Identifier: MIT */
/*
 * P4.2: RDMA Writes of a card whose memory has one port of 400 MB/s, by the model's profile of
 * Martini: between two cards, one way and both ways, and of one card with itself. All in simulated
 * time. With --check, 1 tells that a rate is not within 5 % of the paper's.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rate.h"
#include "table.h"

enum { FRAME_BYTES = 2048, DEPTH = 32 };
#define PAPER_ALONE 330.0
#define PAPER_AT_ONCE 198.0 /* 40 % less */
#define NEAR 0.05

struct options {
    bool check;
    bool json;
};

static bool is_near(double ours, double paper)
{
    return ours >= paper * (1 - NEAR) && ours <= paper * (1 + NEAR);
}

static double rate(uint32_t bytes, bool one_card, bool both)
{
    struct rate_setup setup = {.profile = RNIC_PROFILE_MARTINI_2002,
                               .mtu = rate_mtu(FRAME_BYTES),
                               .bytes = bytes,
                               .depth = DEPTH,
                               .one_card = one_card,
                               .both = both};
    return rate_of_writes(&setup);
}

static bool sustained(const struct options *options)
{
    const uint32_t bytes = 256 << 10;
    double alone = rate(bytes, false, false);
    double with_itself = rate(bytes, true, false);
    double both = rate(bytes, false, true);
    table_begin("P4.2 RDMA Writes of 256 KiB, frames of 2,048 bytes", TABLE_SIMULATED, "MB/s", options->json);
    table_row("two cards, one way", PAPER_ALONE, alone, NULL, TABLE_NONE, TABLE_NONE);
    table_row("one card with itself", PAPER_AT_ONCE, with_itself, "one way", PAPER_AT_ONCE / PAPER_ALONE,
              with_itself / alone);
    table_row("two cards, each way of both", TABLE_NONE, both, "one way", TABLE_NONE, both / alone);
    return is_near(alone, PAPER_ALONE) && is_near(with_itself, PAPER_AT_ONCE);
}

static void sizes(const struct options *options)
{
    static const uint32_t bytes[] = {8, 64, 464, 1024, 4096, 16384, 65536};
    table_begin("P4.2 RDMA Writes over sizes, two cards, one way", TABLE_SIMULATED, "MB/s", options->json);
    for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "%u bytes", (unsigned)bytes[i]);
        table_row(name, TABLE_NONE, rate(bytes[i], false, false), NULL, TABLE_NONE, TABLE_NONE);
    }
}

static void read_options(int argc, char **argv, struct options *out)
{
    static const struct option known[] = {{"check", no_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option != 'c' && option != 'j') {
            puts("usage: vipl-bench-p4-memory [--check] [--json]");
            exit(option == 'h' ? 0 : 2);
        }
        out->check = out->check || option == 'c';
        out->json = out->json || option == 'j';
    }
}

int main(int argc, char **argv)
{
    struct options options = {.check = false, .json = false};
    read_options(argc, argv, &options);
    bool good = sustained(&options);
    sizes(&options);
    if (options.check && !good) {
        fprintf(stderr, "p4_memory: a rate is not within 5 %% of the paper's\n");
        return 1;
    }
    return 0;
}
