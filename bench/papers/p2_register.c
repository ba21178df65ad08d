/* SPDX-License-Identifier: MIT */
/*
 * P2.3 and P2: what a function of the card costs its driver, in wall time. A register that the
 * program reads through its own mapping (BAR2) beside one that it has to ask for (BAR0, which is
 * trapped); and a post whose doorbell is a store beside one whose doorbell is an access that is
 * carried to the card. `--device` is what follows "rnic:" in a device name; without it, the host's
 * adapter, to which the slow path is a message and its reply (vfio-user). Here the mapped register
 * is memory of an emulated card: no PCI Express is between, which is what the paper's 0.58 us are.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "backends/rnic/pci/pci.h"
#include "backends/rnic/verbs/verbs.h"
#include "endpoint.h"
#include "rnic/registers.h"
#include "table.h"

enum { LOADS = 1000, BYTES = 8, BURST = 8 };
#define LIMIT_US 20e6

struct options {
    const char *device;
    unsigned samples;
    bool json;
};

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* ---- registers ------------------------------------------------------------------------------- */

/* Time of a load from the mapped doorbells; each sample is of many, since the clock takes longer
 * than one. */
static double mapped_read(struct rnic_pci *pci, double *samples, unsigned count)
{
    const volatile uint32_t *word =
        (const volatile uint32_t *)(const void *)(pci->doorbells + RNIC_DB_ASLEEP);
    for (unsigned i = 0; i < count; i++) {
        double begun = now_us();
        for (unsigned k = 0; k < LOADS; k++) {
            (void)*word;
        }
        samples[i] = (now_us() - begun) / LOADS;
    }
    return table_percentile(samples, count, 50);
}

static double trapped_read(struct rnic_pci *pci, double *samples, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        double begun = now_us();
        uint32_t value = pci->ops->read(pci, 0, RNIC_REG_ID);
        samples[i] = now_us() - begun;
        endpoint_must("register ID", value == RNIC_ID_VALUE ? 0 : EIO);
    }
    return table_percentile(samples, count, 50);
}

static void register_table(const struct options *options, struct rnic_pci *pci, double *samples)
{
    double mapped = mapped_read(pci, samples, options->samples);
    double trapped = trapped_read(pci, samples, options->samples);
    table_begin("P2.3 a device register read", TABLE_WALL, "us", options->json);
    table_row("through the slow path", 1.27, trapped, NULL, TABLE_NONE, TABLE_NONE);
    table_row("user-mapped", 0.58, mapped, "slow path", 0.58 / 1.27, mapped / trapped);
    table_note("An emulated card: a mapped register is memory, the slow path a message to another process.");
}

/* ---- posts ----------------------------------------------------------------------------------- */

static void reap(struct endpoint *end)
{
    double begun = now_us();
    while (end->done < end->posted) {
        endpoint_take(end);
        endpoint_must("completion", now_us() - begun > LIMIT_US ? ETIMEDOUT : 0);
        vipl_rnic_progress(end->rnic);
    }
}

/* Time of one post, the median over bursts; what is posted completes between the bursts. */
static double post_time(struct endpoint *from, const struct endpoint *to, double *samples, unsigned count)
{
    endpoint_must("post_sq", endpoint_post(from, to, BYTES) ? 0 : EAGAIN); /* the first one makes the ring */
    reap(from);
    for (unsigned i = 0; i < count; i++) {
        double begun = now_us();
        for (unsigned k = 0; k < BURST; k++) {
            endpoint_must("post_sq", endpoint_post(from, to, BYTES) ? 0 : EAGAIN);
        }
        samples[i] = (now_us() - begun) / BURST;
        reap(from);
    }
    return table_percentile(samples, count, 50);
}

/* The same driver with the doorbells mapped, or not: between two queue pairs of one function. */
static double post_by(const struct options *options, bool mapped, double *samples)
{
    struct rnic_pci *pci;
    struct vipl_rnic *rnic;
    struct endpoint from, to;
    endpoint_must("open", rnic_pci_open(options->device, &pci));
    uint8_t *doorbells = pci->doorbells;
    pci->doorbells = mapped ? doorbells : NULL;
    endpoint_must("open_rnic", vipl_rnic_start(pci, &rnic));
    endpoint_init(&from, rnic, BYTES, NULL);
    endpoint_init(&to, rnic, BYTES, NULL);
    endpoint_connect(&from, &to);
    double time = post_time(&from, &to, samples, options->samples);
    endpoint_fini(&from);
    endpoint_fini(&to);
    pci->doorbells = doorbells; /* for its close */
    vipl_rnic_close(rnic);
    return time;
}

static void post_table(const struct options *options, double *samples)
{
    double slow = post_by(options, false, samples);
    double mapped = post_by(options, true, samples);
    table_begin("P2 a post of an RDMA Write of 8 bytes", TABLE_WALL, "us", options->json);
    table_row("doorbells through the slow path", TABLE_NONE, slow, NULL, TABLE_NONE, TABLE_NONE);
    table_row("mapped doorbells", TABLE_NONE, mapped, "slow path", TABLE_NONE, mapped / slow);
}

/* ---- main ------------------------------------------------------------------------------------ */

static void usage(void)
{
    puts("usage: vipl-bench-p2-register [--device NAME] [--samples N] [--json]");
}

static bool read_options(int argc, char **argv, struct options *out)
{
    static const struct option known[] = {{"device", required_argument, NULL, 'd'},
                                          {"samples", required_argument, NULL, 's'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'd':
            out->device = optarg;
            break;
        case 's':
            out->samples = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'j':
            out->json = true;
            break;
        default:
            usage();
            exit(option == 'h' ? 0 : 2);
        }
    }
    return out->samples > 0;
}

int main(int argc, char **argv)
{
    struct options options = {.device = "", .samples = 2000, .json = false};
    if (!read_options(argc, argv, &options)) {
        usage();
        return 2;
    }
    double *samples = malloc(options.samples * sizeof(*samples));
    struct rnic_pci *pci;
    endpoint_must("open", rnic_pci_open(options.device, &pci));
    if (samples == NULL || pci->doorbells == NULL) {
        endpoint_must(samples == NULL ? "memory" : "doorbells", samples == NULL ? ENOMEM : ENODEV);
        free(samples);
        return 1;
    }
    register_table(&options, pci, samples);
    pci->ops->close(pci);
    post_table(&options, samples);
    free(samples);
    return 0;
}
