/* SPDX-License-Identifier: MIT */
/*
 * P5: packets pass through a memory, which is written and read at once. A first card writes to a
 * second one, which sends on to a third what has come, by RDMA Writes in frames of 1,500 bytes:
 * through host memory, whose bus has a port each way, and through device memory, which has one port
 * for both. The profile has the paper's rates of memory and network. All in simulated time. With
 * --check, 1 tells that a rate is not within 5 % of the paper's.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "endpoint.h"
#include "rate.h"
#include "sim.h"
#include "table.h"

enum { FRAME_BYTES = 1500, MESSAGE_BYTES = 40 * FRAME_BYTES, DEPTH = 16, MESSAGES = 400, CARDS = 3 };
#define PAPER_HOST 32.0
#define PAPER_DEVICE 19.0

/* first -> through, whose memory `on` sends on -> last */
struct path {
    struct sim *sim;
    struct vipl_rnic *rnics[CARDS];
    struct endpoint first, through, on, last;
};

static void path_init(struct path *path, bool device)
{
    struct sim_config config = {
        .cards = CARDS, .mtu = rate_mtu(FRAME_BYTES), .profile = RNIC_PROFILE_CAPTURE_2020, .wire = ""};
    path->sim = sim_create(&config);
    for (unsigned i = 0; i < CARDS; i++) {
        endpoint_must("open_rnic", vipl_rnic_start(sim_function(path->sim, i), &path->rnics[i]));
    }
    endpoint_init(&path->first, path->rnics[0], MESSAGE_BYTES, NULL);
    endpoint_init(&path->through, path->rnics[1], MESSAGE_BYTES,
                  device ? endpoint_device_memory(path->rnics[1], VIPL_RNIC_DRAM, MESSAGE_BYTES) : NULL);
    endpoint_init(&path->on, path->rnics[1], MESSAGE_BYTES, path->through.memory);
    endpoint_init(&path->last, path->rnics[2], MESSAGE_BYTES, NULL);
    endpoint_connect(&path->first, &path->through);
    endpoint_connect(&path->on, &path->last);
    memset(path->first.memory, 0x5A, MESSAGE_BYTES);
}

static void path_fini(struct path *path)
{
    int differs = memcmp(path->first.memory, path->last.memory, MESSAGE_BYTES);
    endpoint_must("what came through", differs != 0 ? EIO : 0);
    endpoint_fini(&path->first);
    endpoint_fini(&path->on);
    endpoint_fini(&path->through);
    endpoint_fini(&path->last);
    for (unsigned i = 0; i < CARDS; i++) {
        vipl_rnic_close(path->rnics[i]);
    }
    sim_destroy(path->sim);
}

/* Gb/s that come through. A message is sent on when it has come. */
static double rate(bool device)
{
    struct path path;
    path_init(&path, device);
    uint64_t begun = sim_now(path.sim);
    while (path.on.done < MESSAGES) {
        while (path.first.posted < MESSAGES && path.first.posted - path.on.done < DEPTH &&
               endpoint_post(&path.first, &path.through, MESSAGE_BYTES)) {
        }
        while (path.on.posted < path.first.done && endpoint_post(&path.on, &path.last, MESSAGE_BYTES)) {
        }
        sim_run(path.sim);
        uint64_t before = path.first.done + path.on.done;
        endpoint_take(&path.first);
        endpoint_take(&path.on);
        if (path.first.done + path.on.done == before) {
            endpoint_must("an event that is to come", sim_go_on(path.sim) ? 0 : ETIMEDOUT);
        }
    }
    double took = (double)(sim_now(path.sim) - begun);
    path_fini(&path);
    return (double)MESSAGES * MESSAGE_BYTES * 8 / took;
}

int main(int argc, char **argv)
{
    struct rate_options options = rate_read_options(argc, argv);
    double host = rate(false);
    double device = rate(true);
    table_begin("P5 packets of 1,500 bytes through a memory", TABLE_SIMULATED, "Gb/s", options.json);
    table_row("host memory: a port each way", PAPER_HOST, host, NULL, TABLE_NONE, TABLE_NONE);
    table_row("device memory: one port for both", PAPER_DEVICE, device, "host memory",
              PAPER_DEVICE / PAPER_HOST, device / host);
    if (options.check && !(rate_is_near(host, PAPER_HOST) && rate_is_near(device, PAPER_DEVICE))) {
        fprintf(stderr, "p5_ports: a rate is not within 5 %% of the paper's\n");
        return 1;
    }
    return 0;
}
