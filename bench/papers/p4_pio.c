/* SPDX-License-Identifier: MIT */
/*
 * P4.1: messages of 464 bytes that go by windows (BOTF) into device memory, by the model's profiles
 * of Martini, in one direction and in both; and over sizes, beside the same messages by DMA. All in
 * simulated time. There are two connections in each direction, with a window each, as the paper's
 * processor stores to two windows in turn. With --check, 1 tells that a rate is not within 5 % of
 * the paper's, or in both directions at once not within 5 % of that in one.
 */
#include <stdbool.h>
#include <stdio.h>

#include "rate.h"
#include "table.h"

/* DEPTH: as many as a window has slots. */
enum { PAYLOAD = 464, FRAME_BYTES = 2048, DEPTH = 8, PAIRS = 2 };

static double rate(enum rnic_card_profile profile, uint32_t bytes, bool windows, unsigned pairs, bool both)
{
    struct rate_setup setup = {.profile = profile,
                               .mtu = rate_mtu(FRAME_BYTES),
                               .bytes = bytes,
                               .pairs = pairs,
                               .depth = DEPTH,
                               .memory = RATE_DRAM,
                               .windows = windows,
                               .both = both};
    return rate_of_writes(&setup);
}

static bool rates(const struct rate_options *options)
{
    static const struct {
        enum rnic_card_profile profile;
        double paper;
        double paper_both; /* the ratio of both directions to one */
        const char *name;
        const char *both;
        const char *alone;
    } rows[] = {
        {RNIC_PROFILE_MARTINI_2002, 190, 1, "measured", "measured, each way of both",
         "measured, each way of both, one window"},
        {RNIC_PROFILE_MARTINI_EXPLAINED, 240, TABLE_NONE, "as calculated", "as calculated, each way of both",
         "as calculated, each way of both, one window"},
        {RNIC_PROFILE_MARTINI_OVERLAPPED, 320, TABLE_NONE, "set-up overlapped",
         "set-up overlapped, each way of both", "set-up overlapped, each way of both, one window"},
    };
    bool good = true;
    table_begin("P4.1 messages of 464 bytes by windows", TABLE_SIMULATED, "MB/s", options->json);
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double one = rate(rows[i].profile, PAYLOAD, true, PAIRS, false);
        double both = rate(rows[i].profile, PAYLOAD, true, PAIRS, true);
        double alone = rate(rows[i].profile, PAYLOAD, true, 1, true);
        double paper_both = rows[i].paper_both > 0 ? rows[i].paper : TABLE_NONE;
        table_row(rows[i].name, rows[i].paper, one, NULL, TABLE_NONE, TABLE_NONE);
        table_row(rows[i].both, paper_both, both, rows[i].name, rows[i].paper_both, both / one);
        table_row(rows[i].alone, TABLE_NONE, alone, rows[i].name, TABLE_NONE, alone / one);
        good = good && rate_is_near(one, rows[i].paper) && rate_is_near(both, one);
    }
    return good;
}

static void sizes(const struct rate_options *options)
{
    static const uint32_t bytes[] = {8, 16, 32, 64, 128, 256, 464};
    table_begin("P4.1 RDMA Writes into DRAM over sizes, one way", TABLE_SIMULATED, "MB/s", options->json);
    for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        char base[32], name[32];
        double dma = rate(RNIC_PROFILE_MARTINI_2002, bytes[i], false, PAIRS, false);
        double windows = rate(RNIC_PROFILE_MARTINI_2002, bytes[i], true, PAIRS, false);
        snprintf(base, sizeof(base), "by DMA, %u bytes", (unsigned)bytes[i]);
        snprintf(name, sizeof(name), "by windows, %u bytes", (unsigned)bytes[i]);
        table_row(base, TABLE_NONE, dma, NULL, TABLE_NONE, TABLE_NONE);
        table_row(name, TABLE_NONE, windows, base, TABLE_NONE, windows / dma);
    }
}

int main(int argc, char **argv)
{
    struct rate_options options = rate_read_options(argc, argv);
    bool good = rates(&options);
    sizes(&options);
    if (options.check && !good) {
        fprintf(stderr, "p4_pio: a rate is not within 5 %% of what it should be\n");
        return 1;
    }
    return 0;
}
