/* SPDX-License-Identifier: MIT */
/*
 * P4.2: RDMA Writes from device memory to device memory, whose ports move 400 MB/s, by the model's
 * profile of Martini: between two cards, one way and both ways, and of one card with itself; and
 * beside host memory, over sizes. All in simulated time. With --check, 1 tells that a rate is not
 * within 5 % of the paper's.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "rate.h"
#include "table.h"

enum { FRAME_BYTES = 2048, DEPTH = 32 };
#define PAPER_ALONE 330.0
#define PAPER_AT_ONCE 198.0 /* 40 % less */

static double rate(enum rate_memory memory, uint32_t bytes, bool one_card, bool both)
{
    struct rate_setup setup = {.profile = RNIC_PROFILE_MARTINI_2002,
                               .pairs = 1,
                               .mtu = rate_mtu(FRAME_BYTES),
                               .bytes = bytes,
                               .depth = DEPTH,
                               .memory = memory,
                               .one_card = one_card,
                               .both = both};
    return rate_of_writes(&setup);
}

static bool sustained(const struct rate_options *options)
{
    const uint32_t bytes = 256 << 10;
    double alone = rate(RATE_DRAM, bytes, false, false);
    double with_itself = rate(RATE_DRAM, bytes, true, false);
    double both = rate(RATE_DRAM, bytes, false, true);
    double host = rate(RATE_HOST, bytes, false, false);
    const char *base = "DRAM, two cards, one way";
    table_begin("P4.2 RDMA Writes of 256 KiB, frames of 2,048 bytes", TABLE_SIMULATED, "MB/s", options->json);
    table_row(base, PAPER_ALONE, alone, NULL, TABLE_NONE, TABLE_NONE);
    table_row("DRAM, one card with itself", PAPER_AT_ONCE, with_itself, base, PAPER_AT_ONCE / PAPER_ALONE,
              with_itself / alone);
    table_row("DRAM, two cards, each way of both", PAPER_AT_ONCE, both, base, PAPER_AT_ONCE / PAPER_ALONE,
              both / alone);
    table_row("host memory, two cards, one way", TABLE_NONE, host, base, TABLE_NONE, host / alone);
    return rate_is_near(alone, PAPER_ALONE) && rate_is_near(with_itself, PAPER_AT_ONCE) &&
           rate_is_near(both, PAPER_AT_ONCE);
}

static void sizes(const struct rate_options *options)
{
    static const uint32_t bytes[] = {8, 64, 464, 1024, 4096};
    static const char *const names[] = {"host memory", "DRAM", "SRAM"};
    table_begin("P4.2 RDMA Writes over sizes, two cards, one way", TABLE_SIMULATED, "MB/s", options->json);
    for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        char base[32];
        double host = rate(RATE_HOST, bytes[i], false, false);
        snprintf(base, sizeof(base), "host memory, %u bytes", (unsigned)bytes[i]);
        table_row(base, TABLE_NONE, host, NULL, TABLE_NONE, TABLE_NONE);
        for (unsigned k = RATE_DRAM; k <= RATE_SRAM; k++) {
            char name[32];
            double ours = rate((enum rate_memory)k, bytes[i], false, false);
            snprintf(name, sizeof(name), "%s, %u bytes", names[k], (unsigned)bytes[i]);
            table_row(name, TABLE_NONE, ours, base, TABLE_NONE, ours / host);
        }
    }
}

int main(int argc, char **argv)
{
    struct rate_options options = rate_read_options(argc, argv);
    bool good = sustained(&options);
    sizes(&options);
    if (options.check && !good) {
        fprintf(stderr, "p4_memory: a rate is not within 5 %% of the paper's\n");
        return 1;
    }
    return 0;
}
