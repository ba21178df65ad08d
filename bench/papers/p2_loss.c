/* SPDX-License-Identifier: MIT */
/*
 * P2.5: what EFE, the card's lossless wire, makes of a wire that loses frames. Two models of the
 * card joined by a wire of 10 Gb/s and 5 us each way: RDMA Writes at Reliable Delivery, by the
 * driver's verbs. Goodput of a long transfer and completion time of single messages, for each loss;
 * and two senders that share the wire to a third card, of 1 Gb/s. All in simulated time. With
 * --check, 1 tells that goodput without loss is below two thirds of the wire, or at 1 % below half
 * of that; or that one of two senders has more than 20 % more than the other. The paper names EFE's
 * purpose, and has no figure for it.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"
#include "sim.h"
#include "table.h"

enum {
    MESSAGE_BYTES = 64 << 10,
    SHORT_BYTES = 4 << 10,
    DEPTH = 64, /* messages that are outstanding */
    MTU = 4096,
    WIRE_GBITS = 10
};
#define NS_PER_S 1e9

struct options {
    unsigned megabytes;
    unsigned samples;
    bool check;
    bool json;
};

static struct vipl_rnic *start(struct sim *sim, unsigned card)
{
    struct vipl_rnic *rnic = NULL;
    endpoint_must("open_rnic", vipl_rnic_start(sim_function(sim, card), &rnic));
    return rnic;
}

static void go_on(struct sim *sim)
{
    if (!sim_go_on(sim)) {
        fprintf(stderr, "p2_loss: nothing is to come, and not all is done\n");
        exit(2);
    }
}

/* ---- one sender ------------------------------------------------------------------------------ */

struct pair {
    struct sim *sim;
    struct vipl_rnic *rnics[2];
    struct endpoint from, to;
};

static void pair_init(struct pair *pair, double loss)
{
    char wire[96];
    snprintf(wire, sizeof(wire), "seed=7,rate=%uG,delay=5us,queue=4M,loss=%.4f", (unsigned)WIRE_GBITS, loss);
    struct sim_config config = {.cards = 2, .mtu = MTU, .profile = RNIC_PROFILE_NONE, .wire = wire};
    pair->sim = sim_create(&config);
    pair->rnics[0] = start(pair->sim, 0);
    pair->rnics[1] = start(pair->sim, 1);
    endpoint_init(&pair->from, pair->rnics[0], MESSAGE_BYTES, NULL);
    endpoint_init(&pair->to, pair->rnics[1], MESSAGE_BYTES, NULL);
    endpoint_connect(&pair->from, &pair->to);
}

static void pair_fini(struct pair *pair)
{
    endpoint_fini(&pair->from);
    endpoint_fini(&pair->to);
    vipl_rnic_close(pair->rnics[0]);
    vipl_rnic_close(pair->rnics[1]);
    sim_destroy(pair->sim);
}

/* Gb/s of payload, from the first post to the last completion. */
static double goodput(struct pair *pair, uint64_t messages)
{
    uint64_t begun = sim_now(pair->sim);
    uint64_t first = pair->from.done;
    while (pair->from.done < first + messages) {
        while (pair->from.posted < first + messages && pair->from.posted - pair->from.done < DEPTH &&
               endpoint_post(&pair->from, &pair->to, MESSAGE_BYTES)) {
        }
        sim_run(pair->sim);
        uint64_t before = pair->from.done;
        endpoint_take(&pair->from);
        if (pair->from.done == before) {
            go_on(pair->sim);
        }
    }
    return (double)messages * MESSAGE_BYTES * 8 / (double)(sim_now(pair->sim) - begun);
}

/* Microseconds from the post of one message to its completion, `samples` times, one after the
 * other. */
static void completion_times(struct pair *pair, double *out, unsigned samples)
{
    for (unsigned i = 0; i < samples; i++) {
        uint64_t begun = sim_now(pair->sim);
        uint64_t first = pair->from.done;
        if (!endpoint_post(&pair->from, &pair->to, SHORT_BYTES)) {
            endpoint_must("post_sq", EAGAIN);
        }
        for (;;) {
            sim_run(pair->sim);
            endpoint_take(&pair->from);
            if (pair->from.done > first) {
                break;
            }
            go_on(pair->sim);
        }
        out[i] = (double)(sim_now(pair->sim) - begun) / 1000;
    }
}

static const double losses[] = {0, 0.001, 0.01, 0.05, 0.2};
enum { LOSSES = sizeof(losses) / sizeof(losses[0]) };

static void name_loss(char *name, size_t bytes, const char *what, double loss)
{
    snprintf(name, bytes, "%s, loss %g %%", what, loss * 100);
}

/* Whether goodput is two thirds of the wire without loss, and at 1 % half of that, or more; and all
 * has arrived. */
static bool goodput_table(const struct options *options)
{
    double none = 0;
    bool good = true;
    table_begin("P2.5 goodput of EFE, 10 Gb/s, 64 KiB writes", TABLE_SIMULATED, "Gb/s", options->json);
    for (unsigned i = 0; i < LOSSES; i++) {
        struct pair pair;
        char name[64];
        pair_init(&pair, losses[i]);
        memset(pair.from.memory, 0x5A, MESSAGE_BYTES);
        double rate = goodput(&pair, (uint64_t)options->megabytes * ((1 << 20) / MESSAGE_BYTES));
        none = i == 0 ? rate : none;
        name_loss(name, sizeof(name), "goodput", losses[i]);
        table_row(name, TABLE_NONE, rate, i == 0 ? NULL : "no loss", TABLE_NONE,
                  i == 0 ? TABLE_NONE : rate / none);
        good = good && none >= WIRE_GBITS * 2.0 / 3 && (losses[i] != 0.01 || rate >= none / 2) &&
               memcmp(pair.from.memory, pair.to.memory, MESSAGE_BYTES) == 0;
        pair_fini(&pair);
    }
    return good;
}

static void completion_table(const struct options *options)
{
    double *times = malloc(options->samples * sizeof(*times));
    double none = 0;
    if (times == NULL) {
        endpoint_must("memory", ENOMEM);
        return;
    }
    table_begin("P2.5 completion time of 4 KiB writes, one after the other", TABLE_SIMULATED, "us",
                options->json);
    for (unsigned i = 0; i < LOSSES; i++) {
        struct pair pair;
        char name[64];
        pair_init(&pair, losses[i]);
        completion_times(&pair, times, options->samples);
        double median = table_percentile(times, options->samples, 50);
        double tail = table_percentile(times, options->samples, 99);
        none = i == 0 ? median : none;
        name_loss(name, sizeof(name), "median", losses[i]);
        table_row(name, TABLE_NONE, median, i == 0 ? NULL : "no loss", TABLE_NONE,
                  i == 0 ? TABLE_NONE : median / none);
        name_loss(name, sizeof(name), "99th percentile", losses[i]);
        table_row(name, TABLE_NONE, tail, "no loss's median", TABLE_NONE, tail / none);
        pair_fini(&pair);
    }
    free(times);
}

/* ---- two senders, one wire ------------------------------------------------------------------- */

/* Both send to the third card as much as they can, until so much time is over; bytes of each after
 * the first quarter. */
static void share(struct sim *sim, struct endpoint from[2], const struct endpoint to[2], uint64_t time,
                  double bytes[2])
{
    uint64_t begun = sim_now(sim);
    uint64_t before[2] = {0, 0};
    bool counting = false;
    while (sim_now(sim) < begun + time) {
        for (unsigned i = 0; i < 2; i++) {
            while (from[i].posted - from[i].done < DEPTH && endpoint_post(&from[i], &to[i], MESSAGE_BYTES)) {
            }
        }
        sim_run(sim);
        endpoint_take(&from[0]);
        endpoint_take(&from[1]);
        if (!counting && sim_now(sim) >= begun + time / 4) {
            counting = true;
            before[0] = from[0].done;
            before[1] = from[1].done;
        }
        go_on(sim);
    }
    for (unsigned i = 0; i < 2; i++) {
        bytes[i] = (double)(from[i].done - before[i]) * MESSAGE_BYTES;
    }
}

static void share_fini(struct sim *sim, struct endpoint from[2], struct endpoint to[2],
                       struct vipl_rnic *const rnics[3])
{
    for (unsigned i = 0; i < 2; i++) {
        endpoint_fini(&from[i]); /* what is outstanding is given up */
        endpoint_fini(&to[i]);
    }
    for (unsigned i = 0; i < 3; i++) {
        vipl_rnic_close(rnics[i]);
    }
    sim_destroy(sim);
}

/* Whether the faster one has at most 20 % more. */
static bool share_table(const struct options *options)
{
    struct sim_config config = {
        .cards = 3, .mtu = MTU, .profile = RNIC_PROFILE_NONE, .wire = "seed=7,rate=1G,delay=20us,queue=4M"};
    struct sim *sim = sim_create(&config);
    struct endpoint from[2], to[2];
    double bytes[2];
    uint64_t time =
        (uint64_t)options->megabytes * 20000000; /* as long as the first table's at 1 Gb/s, about */
    struct vipl_rnic *rnics[3];
    for (unsigned i = 0; i < 3; i++) {
        rnics[i] = start(sim, i);
    }
    for (unsigned i = 0; i < 2; i++) {
        endpoint_init(&from[i], rnics[i], MESSAGE_BYTES, NULL);
        endpoint_init(&to[i], rnics[2], MESSAGE_BYTES, NULL);
        endpoint_connect(&from[i], &to[i]);
    }
    share(sim, from, to, time, bytes);
    double seconds = (double)time * 3 / 4 / NS_PER_S;
    double rate[2] = {bytes[0] * 8 / seconds / 1e9, bytes[1] * 8 / seconds / 1e9};
    table_begin("P2.5 two senders, one wire of 1 Gb/s", TABLE_SIMULATED, "Gb/s", options->json);
    table_row("first sender", TABLE_NONE, rate[0], NULL, TABLE_NONE, TABLE_NONE);
    table_row("second sender", TABLE_NONE, rate[1], "first sender", TABLE_NONE, rate[1] / rate[0]);
    table_row("together", TABLE_NONE, rate[0] + rate[1], "the wire", TABLE_NONE, rate[0] + rate[1]);
    share_fini(sim, from, to, rnics);
    return rate[0] <= 1.2 * rate[1] && rate[1] <= 1.2 * rate[0];
}

/* ---- main ------------------------------------------------------------------------------------ */

static void usage(void)
{
    puts("usage: vipl-bench-p2-loss [--megabytes N] [--samples N] [--check] [--json]");
}

static bool read_options(int argc, char **argv, struct options *out)
{
    static const struct option known[] = {{"megabytes", required_argument, NULL, 'm'},
                                          {"samples", required_argument, NULL, 's'},
                                          {"check", no_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'm':
            out->megabytes = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 's':
            out->samples = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'c':
            out->check = true;
            break;
        case 'j':
            out->json = true;
            break;
        default:
            usage();
            exit(option == 'h' ? 0 : 2);
        }
    }
    return out->megabytes > 0 && out->samples > 0;
}

int main(int argc, char **argv)
{
    struct options options = {.megabytes = 64, .samples = 1000, .check = false, .json = false};
    if (!read_options(argc, argv, &options)) {
        usage();
        return 2;
    }
    bool good = goodput_table(&options);
    completion_table(&options);
    good = share_table(&options) && good;
    if (options.check && !good) {
        fprintf(stderr, "p2_loss: goodput is low, or the senders do not share the wire\n");
        return 1;
    }
    return 0;
}
