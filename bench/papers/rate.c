/* SPDX-License-Identifier: MIT */
/* Two cards, or one, with queue pairs at each end and as many more for the other direction. */
#include "rate.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/rnic/efe/frame.h"
#include "endpoint.h"
#include "iwarp/rdmap.h"
#include "sim.h"

enum { LEAST_MESSAGES = 32, MOST_MESSAGES = 400, LEAST_BYTES = 4 << 20, FLOWS = 2 * RATE_MAX_PAIRS };

struct traffic {
    const struct rate_setup *setup;
    struct sim *sim;
    struct vipl_rnic *rnics[2];
    struct endpoint from[FLOWS], to[FLOWS]; /* those of both directions in turn */
    unsigned flows;
};

struct rate_options rate_read_options(int argc, char **argv)
{
    static const struct option known[] = {{"check", no_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    const char *slash = strrchr(argv[0], '/');
    struct rate_options options = {.check = false, .json = false};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option != 'c' && option != 'j') {
            printf("usage: %s [--check] [--json]\n", slash != NULL ? slash + 1 : argv[0]);
            exit(option == 'h' ? 0 : 2);
        }
        options.check = options.check || option == 'c';
        options.json = options.json || option == 'j';
    }
    return options;
}

bool rate_is_near(double ours, double wanted)
{
    return ours >= wanted * 0.95 && ours <= wanted * 1.05;
}

uint32_t rate_mtu(uint32_t frame_bytes)
{
    return frame_bytes + VIPL_DDP_TAGGED_BYTES + EFE_HEADER_BYTES + EFE_CRC_BYTES;
}

/* Memory for one end in a card; NULL: host memory. */
static uint8_t *place_of(const struct traffic *traffic, unsigned card)
{
    const struct rate_setup *setup = traffic->setup;
    enum vipl_rnic_memory kind = setup->memory == RATE_SRAM ? VIPL_RNIC_SRAM : VIPL_RNIC_DRAM;
    return setup->memory == RATE_HOST ? NULL
                                      : endpoint_device_memory(traffic->rnics[card], kind, setup->bytes);
}

static void traffic_init(struct traffic *traffic, const struct rate_setup *setup)
{
    unsigned cards = setup->one_card ? 1 : 2;
    struct sim_config config = {.cards = cards, .mtu = setup->mtu, .profile = setup->profile, .wire = ""};
    *traffic = (struct traffic){
        .setup = setup, .sim = sim_create(&config), .flows = setup->both ? 2 * setup->pairs : setup->pairs};
    for (unsigned i = 0; i < cards; i++) {
        endpoint_must("open_rnic", vipl_rnic_start(sim_function(traffic->sim, i), &traffic->rnics[i]));
        vipl_rnic_set_windows(traffic->rnics[i], setup->windows ? RNIC_WINDOW_PAYLOAD : 0);
    }
    for (unsigned i = 0; i < traffic->flows; i++) {
        unsigned here = setup->one_card || !setup->both ? 0 : i % 2;
        unsigned there = setup->one_card ? 0 : 1 - here;
        endpoint_init(&traffic->from[i], traffic->rnics[here], setup->bytes,
                      setup->windows ? NULL : place_of(traffic, here));
        endpoint_init(&traffic->to[i], traffic->rnics[there], setup->bytes, place_of(traffic, there));
        endpoint_connect(&traffic->from[i], &traffic->to[i]);
        memset(traffic->from[i].memory, 0x5A + (int)i, setup->bytes);
    }
}

static void traffic_fini(struct traffic *traffic)
{
    for (unsigned i = 0; i < traffic->flows; i++) {
        int differs = memcmp(traffic->from[i].memory, traffic->to[i].memory, traffic->setup->bytes);
        endpoint_must("what was written", differs != 0 ? EIO : 0);
        endpoint_fini(&traffic->from[i]);
        endpoint_fini(&traffic->to[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (traffic->rnics[i] != NULL) {
            vipl_rnic_close(traffic->rnics[i]);
        }
    }
    sim_destroy(traffic->sim);
}

/* Posts what fits, and takes what is complete. Returns true if that are all of the messages. */
static bool move_on(struct traffic *traffic, unsigned flow, uint64_t messages)
{
    struct endpoint *from = &traffic->from[flow];
    while (from->posted < messages && from->posted - from->done < traffic->setup->depth &&
           endpoint_post(from, &traffic->to[flow], traffic->setup->bytes)) {
    }
    sim_run(traffic->sim);
    endpoint_take(from);
    return from->done == messages;
}

double rate_of_writes(const struct rate_setup *setup)
{
    struct traffic traffic;
    uint64_t messages = LEAST_MESSAGES + LEAST_BYTES / setup->bytes;
    messages = messages < MOST_MESSAGES ? messages : MOST_MESSAGES;
    traffic_init(&traffic, setup);
    uint64_t begun = sim_now(traffic.sim);
    for (;;) {
        bool all = true;
        for (unsigned i = 0; i < traffic.flows; i++) {
            all = move_on(&traffic, i, messages) && all;
        }
        if (all) {
            break;
        }
        endpoint_must("an event that is to come", sim_go_on(traffic.sim) ? 0 : ETIMEDOUT);
    }
    double took = (double)(sim_now(traffic.sim) - begun);
    traffic_fini(&traffic);
    return (double)messages * setup->pairs * setup->bytes * 1e3 / took;
}
