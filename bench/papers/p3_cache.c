/* SPDX-License-Identifier: MIT */
/*
 * P3.2 and P3.3: what the registration cache costs and gives, in wall time, beside the paper's
 * pin-down cache: a hit and a miss; and the bandwidth of RDMA Write from a buffer that is acquired
 * for each transfer, of which a given part are hits, beside a buffer that was registered once. One
 * transfer at a time, between two VIs of this process or, with --processes, of two: the target then
 * takes nothing of the CPU time of the cache. The rates of a round are measured in turn, so that a
 * busy machine delays all alike; a figure is the median of the rounds.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <vipl/cache.h>

#include "ends.h"
#include "table.h"
#include "tool_os.h"
#include "tool_text.h"
#include "tool_vipl.h"

enum { PAGE = 4096, MOST_BYTES = 1 << 20, MOST_ROUNDS = 200, TRANSFERS = 50, HITS = 2000 };

/* Parts of the transfers that are hits, in per cent; REGISTERED_ONCE: no cache. */
enum { REGISTERED_ONCE = -1 };
static const int rates[] = {0, 50, 90, 100, REGISTERED_ONCE};
enum { RATES = sizeof(rates) / sizeof(rates[0]) };

/* Two connected VIs: the first one writes into memory of the other one's. */
struct pair {
    struct ends ends;      /* memory: descriptors; the target of the writes, without --processes */
    struct ends_far far;   /* the target: of the second end, in this process or another */
    unsigned char *source; /* MOST_BYTES of private memory */
    VIP_MEM_HANDLE once;   /* its registration for REGISTERED_ONCE */
};

struct options {
    const char *device;
    bool json;
    bool processes;
    int rounds; /* of each figure: 1 to MOST_ROUNDS */
};

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static const VIP_VI_ATTRIBUTES vi_attributes = {
    VIP_SERVICE_RELIABLE_DELIVERY, MOST_BYTES, NULL, NULL, VIP_TRUE, VIP_FALSE};

static bool create(struct pair *pair, const char *device, int ends)
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes;
    void *source = mmap(NULL, MOST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (source == MAP_FAILED) {
        return false;
    }
    pair->source = source;
    memset(source, 1, MOST_BYTES);
    for (int end = 0; end < ends; end++) {
        if (!tool_open(device, &pair->ends.nic[end]) ||
            !tool_mem_create(pair->ends.nic[end], end == 0 ? PAGE : MOST_BYTES, end == 1, false,
                             &pair->ends.memory[end]) ||
            !ends_right("VipCreateVi",
                        VipCreateVi(pair->ends.nic[end], &attributes, NULL, NULL, &pair->ends.vi[end]))) {
            return false;
        }
    }
    return ends_right("VipRegisterMem",
                      VipRegisterMem(pair->ends.nic[0], pair->source, MOST_BYTES, NULL, &pair->once));
}

/* Makes both ends, and connects them. */
static bool start(struct pair *pair, const struct options *options)
{
    if (options->processes) {
        pair->far.attributes = &vi_attributes;
        pair->far.device = options->device;
        pair->far.bytes = MOST_BYTES;
        return ends_far_start(&pair->far) && create(pair, options->device, 1) &&
               ends_far_connect(&pair->ends, &pair->far);
    }
    if (!create(pair, options->device, 2) || !ends_connect(&pair->ends)) {
        return false;
    }
    pair->far.address = (uintptr_t)pair->ends.memory[1].base;
    pair->far.handle = pair->ends.memory[1].handle;
    return true;
}

/* ---- hit and miss ---------------------------------------------------------------------------- */

static bool acquire_and_release(const struct pair *pair, size_t bytes, VIP_ULONG flags)
{
    VIPX_REGISTRATION registration;

    return ends_right("VipxAcquireMem", VipxAcquireMem(pair->ends.nic[0], pair->source, (VIP_ULONG)bytes,
                                                       NULL, flags, &registration)) &&
           ends_right("VipxReleaseMem", VipxReleaseMem(pair->ends.nic[0], &registration));
}

/* Time of a hit: the least of the rounds. A round has many hits, since the clock takes as long as
 * one. */
static bool measure_hit(const struct pair *pair, int rounds, double *out)
{
    bool good = acquire_and_release(pair, MOST_BYTES, 0);

    *out = 1e9;
    for (int round = 0; good && round < rounds; round++) {
        double begun = now_us();
        for (int i = 0; good && i < HITS; i++) {
            good = acquire_and_release(pair, PAGE, 0);
        }
        double each = (now_us() - begun) / HITS;
        *out = each < *out ? each : *out;
    }
    return good;
}

/* Median time of a miss whose region the cache keeps, with the end of the region; and of
 * registering and deregistering the same. */
static bool measure_miss(const struct pair *pair, size_t bytes, int rounds, double *miss, double *registering)
{
    static double misses[MOST_ROUNDS], direct[MOST_ROUNDS];
    bool good = true;

    for (int round = 0; good && round < rounds; round++) {
        VIP_MEM_HANDLE handle;
        good = ends_right("VipxForgetMem", VipxForgetMem(pair->ends.nic[0], pair->source, MOST_BYTES));
        double begun = now_us();
        good = good && acquire_and_release(pair, bytes, 0) &&
               ends_right("VipxForgetMem", VipxForgetMem(pair->ends.nic[0], pair->source, MOST_BYTES));
        misses[round] = now_us() - begun;
        begun = now_us();
        good = good &&
               ends_right("VipRegisterMem",
                          VipRegisterMem(pair->ends.nic[0], pair->source, (VIP_ULONG)bytes, NULL, &handle)) &&
               ends_right("VipDeregisterMem", VipDeregisterMem(pair->ends.nic[0], pair->source, handle));
        direct[round] = now_us() - begun;
    }
    *miss = table_percentile(misses, (unsigned)rounds, 50);
    *registering = table_percentile(direct, (unsigned)rounds, 50);
    return good;
}

static bool show_costs(const struct pair *pair, const struct options *options)
{
    static const struct {
        const char *miss;
        const char *registering;
        size_t bytes;
        double paper;
    } sizes[] = {{"miss, 4 KiB", "register and deregister, 4 KiB", PAGE, 103},
                 {"miss, 1 MiB", "register and deregister, 1 MiB", MOST_BYTES, 3240}};
    double hit;

    if (!measure_hit(pair, options->rounds, &hit)) {
        return false;
    }
    table_begin("P3.2 the registration cache: acquire and release", TABLE_WALL, "us", options->json);
    table_row("hit", 0.6, hit, NULL, TABLE_NONE, TABLE_NONE);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        double miss, registering;
        if (!measure_miss(pair, sizes[i].bytes, options->rounds, &miss, &registering)) {
            return false;
        }
        table_row(sizes[i].registering, TABLE_NONE, registering, NULL, TABLE_NONE, TABLE_NONE);
        table_row(sizes[i].miss, sizes[i].paper, miss, "hit", sizes[i].paper / 0.6, miss / hit);
    }
    return true;
}

/* ---- bandwidth ------------------------------------------------------------------------------- */

static bool write_once(const struct pair *pair, VIP_MEM_HANDLE handle, size_t bytes)
{
    VIP_DESCRIPTOR *desc = (VIP_DESCRIPTOR *)(void *)pair->ends.memory[0].base;
    VIP_RETURN rc;

    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 2;
    desc->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
    desc->CS.Length = (VIP_UINT32)bytes;
    desc->DS[0].Remote.Data.AddressBits = pair->far.address;
    desc->DS[0].Remote.Handle = pair->far.handle;
    desc->DS[1].Local.Data.AddressBits = (uintptr_t)pair->source;
    desc->DS[1].Local.Handle = handle;
    desc->DS[1].Local.Length = (VIP_UINT32)bytes;
    if (!ends_right("VipPostSend", VipPostSend(pair->ends.vi[0], desc, pair->ends.memory[0].handle))) {
        return false;
    }
    while ((rc = VipSendDone(pair->ends.vi[0], &desc)) == VIP_NOT_DONE) {
        if (pair->ends.vi[1] != NULL) { /* the other end makes progress */
            VipRecvDone(pair->ends.vi[1], &desc);
        }
    }
    return ends_right("a completion", rc);
}

static bool write_acquired(const struct pair *pair, size_t bytes, bool is_hit)
{
    VIPX_REGISTRATION registration;

    /* A miss is a region that the cache does not keep: it is registered and deregistered. */
    return ends_right("VipxAcquireMem", VipxAcquireMem(pair->ends.nic[0], pair->source, (VIP_ULONG)bytes,
                                                       NULL, is_hit ? 0 : VIPX_ONCE, &registration)) &&
           write_once(pair, registration.Handle, bytes) &&
           ends_right("VipxReleaseMem", VipxReleaseMem(pair->ends.nic[0], &registration));
}

/* MB/s of one round. */
static bool measure_rate(const struct pair *pair, size_t bytes, int rate, double *out)
{
    bool good = true;
    double begun = now_us();

    for (int i = 0; good && i < TRANSFERS; i++) {
        /* evenly over the round */
        bool is_hit = rate > 0 && (i + 1) * rate / 100 > i * rate / 100;
        good = rate == REGISTERED_ONCE ? write_once(pair, pair->once, bytes)
                                       : write_acquired(pair, bytes, is_hit);
    }
    *out = (double)bytes * TRANSFERS / (now_us() - begun);
    return good;
}

static bool show_bandwidth(const struct pair *pair, const struct options *options, size_t bytes,
                           const double paper[RATES])
{
    static const char *const names[] = {"0 % hits", "50 % hits", "90 % hits", "100 % hits",
                                        "registered once"};
    static double samples[RATES][MOST_ROUNDS];
    double medians[RATES];
    char title[80];

    for (int round = 0; round < options->rounds; round++) {
        for (int i = 0; i < RATES; i++) {
            if (!measure_rate(pair, bytes, rates[i], &samples[i][round])) {
                return false;
            }
        }
    }
    for (int i = 0; i < RATES; i++) {
        medians[i] = table_percentile(samples[i], (unsigned)options->rounds, 50);
    }
    snprintf(title, sizeof(title), "P3.3 RDMA Write, %zu bytes%s, by hits of the cache", bytes,
             options->processes ? ", two processes" : "");
    table_begin(title, TABLE_WALL, "MB/s", options->json);
    for (int i = 0; i < RATES; i++) {
        table_row(names[i], paper[i], medians[i], "registered once",
                  paper[i] < 0 || paper[RATES - 1] < 0 ? TABLE_NONE : paper[i] / paper[RATES - 1],
                  medians[i] / medians[RATES - 1]);
    }
    return true;
}

/* ---- main ------------------------------------------------------------------------------------ */

static bool run(struct pair *pair, const struct options *options)
{
    /* The paper gives 8 KiB alone, at 0 % and without a cache that misses. */
    static const double none[RATES] = {TABLE_NONE, TABLE_NONE, TABLE_NONE, TABLE_NONE, TABLE_NONE};
    static const double paper[RATES] = {40, TABLE_NONE, TABLE_NONE, TABLE_NONE, 109};

    return start(pair, options) && show_costs(pair, options) && show_bandwidth(pair, options, PAGE, none) &&
           show_bandwidth(pair, options, 2 * PAGE, paper) &&
           show_bandwidth(pair, options, MOST_BYTES / 16, none);
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"device", required_argument, NULL, 'd'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"processes", no_argument, NULL, 'p'},
                                          {"rounds", required_argument, NULL, 'r'},
                                          {NULL, 0, NULL, 0}};
    struct options options = {.device = "loopback", .rounds = MOST_ROUNDS};
    struct pair pair;
    int option;

    tool_name = "vipl-bench-p3-cache";
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        uint64_t rounds = 0;
        if ((option != 'd' && option != 'j' && option != 'p' && option != 'r') ||
            (option == 'r' && !tool_parse_number(optarg, 1, MOST_ROUNDS, &rounds))) {
            return TOOL_USAGE;
        }
        options.device = option == 'd' ? optarg : options.device;
        options.json = options.json || option == 'j';
        options.processes = options.processes || option == 'p';
        options.rounds = option == 'r' ? (int)rounds : options.rounds;
    }
    memset(&pair, 0, sizeof(pair));
    bool good = run(&pair, &options);
    ends_destroy(&pair.ends);
    ends_far_stop(&pair.far);
    return good ? TOOL_OK : TOOL_FAILED;
}
