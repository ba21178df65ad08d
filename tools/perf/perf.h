/* SPDX-License-Identifier: MIT */
/*
 * The parts of vipl-perf, from the bottom up: hist.c (samples), wire.c (control messages), end.c
 * and reap.c (one connected VI, its descriptors and buffers), lat.c and stream.c (the timed loops,
 * run by both ends at once), session.c (the two ends' agreement on what to run next), meet.c
 * (connections and threads), local.c (both VIs in one process), limits.c and tcp.c (what the
 * machine can do without VIPL), rounds.c (the plan of a measurement), report.c (tables and JSON),
 * options.c (the command line), perf.c (processes).
 */
#ifndef VIPL_PERF_H
#define VIPL_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "end.h"
#include "hist.h"
#include "tool_vipl.h"

const char *perf_test_text(enum perf_test test);
const char *perf_op_text(enum perf_op op);

/* ---- lat.c, stream.c: the timed loops ------------------------------------------------- */

/* What a run came to on this end. */
struct perf_tally {
    struct perf_hist *hist; /* ns: a round trip or a read (lat), a window of messages (others) */
    uint64_t elapsed_ns;    /* the whole run, the last acknowledgement included */
    uint64_t window;        /* messages in one sample of bw, bibw and rate */
    uint64_t wrong;         /* messages whose bytes were not as they should be */
    uint64_t messages;      /* of all threads */
};

VIP_RETURN perf_lat(struct perf_end *end, const struct perf_run *run, bool client, struct perf_tally *tally);
VIP_RETURN perf_stream(struct perf_end *end, const struct perf_run *run, bool client,
                       struct perf_tally *tally, bool *peer_ended);

/* The seed of message `number`, the first being 1, in each direction. */
uint32_t perf_seed(bool from_client, uint64_t number);

/* The pattern's seed of slot `slot` in a window to be read. */
uint32_t perf_slot_seed(uint32_t slot);

/* ---- session.c: agreement -------------------------------------------------------------------- */

/* The first words between two connected ends. `patience` is how long the server shall wait for the
 * next run, in ms. */
VIP_RETURN perf_client_hello(struct perf_end *end, uint32_t patience);

/* Run once on both ends. Failures have been explained; tally->wrong counts both ends' findings. */
VIP_RETURN perf_client_run(struct perf_end *end, const struct perf_run *run, struct perf_tally *tally);

/* A client's end from its first message, for which `desc` is posted, until it goes. */
void perf_serve_end(struct perf_end *end, VIP_DESCRIPTOR *desc, const VIP_VI_ATTRIBUTES *attributes);

/* ---- meet.c: connections and threads --------------------------------------------------------- */

struct perf_options;

/* A client's threads, each with an end of its own. */
struct perf_team {
    uint32_t threads;
    struct perf_end *ends;
    struct perf_hist *hists; /* of the run under way, one each */
};

/* In a zeroed team, which is to be destroyed in any case. */
bool perf_team_connect(const struct perf_options *options, VIP_NIC_HANDLE nic, struct perf_team *team);
void perf_team_destroy(struct perf_team *team);

/* perf_client_run() in all threads at once; what they found is added up in the cleared tally. */
VIP_RETURN perf_team_run(struct perf_team *team, const struct perf_run *run, struct perf_tally *tally);

/* Serve clients, one at a time, until a stop; returns a tool's exit code. */
int perf_serve(const struct perf_options *options);

/* ---- local.c: both VIs in this process, one thread ----------------------------------------- */

struct perf_local;

struct perf_local *perf_local_create(const struct perf_options *options);
void perf_local_destroy(struct perf_local *local);
VIP_NIC_HANDLE perf_local_nic(const struct perf_local *local);
VIP_RETURN perf_local_run(struct perf_local *local, const struct perf_run *run, struct perf_tally *tally);

/* ---- limits.c: the machine without VIPL ---------------------------------------------------- */

struct perf_limits;

enum perf_limit { PERF_LIMIT_SHM, PERF_LIMIT_MEMCPY, PERF_LIMIT_VMREAD, PERF_LIMIT_TCP, PERF_LIMIT_COUNT };

/* What --limits asks for, bits by enum perf_limit; --compare: the TCP one. */
#define PERF_LIMITS_HERE (1u << PERF_LIMIT_SHM | 1u << PERF_LIMIT_MEMCPY | 1u << PERF_LIMIT_VMREAD)

/* Starts the second process, on a CPU of its own; before any device is open. NULL on failure. */
struct perf_limits *perf_limits_start(int cpu, uint32_t largest, unsigned kinds);
void perf_limits_stop(struct perf_limits *limits);

/* us of one message one way (lat) or MB/s (others); NaN where the machine does not offer it. */
double perf_limits_measure(struct perf_limits *limits, enum perf_limit which, const struct perf_run *run,
                           uint64_t duration_ns);

/* ---- report.c: what people and programs read ------------------------------------------------ */

/* One row of the result; figures in `unit`. */
struct perf_row {
    struct perf_run run;
    struct tool_device_name device;
    const char *unit;
    uint32_t depth; /* messages in flight */
    uint32_t rounds;
    uint64_t samples;
    double min;
    double median;
    double p90;
    double p99;
    double p999;
    double p9999;
    double max; /* the longest latency, the fastest window */
    double mean;
    double round_min; /* of the rounds' figures */
    double round_max;
    double limit[PERF_LIMIT_COUNT]; /* NaN: not measured */
    double ratio[PERF_LIMIT_COUNT]; /* median over rounds */
    uint64_t wrong;
};

/* Fold the merged samples of all rounds into a row. */
void perf_row_fill(struct perf_row *row, const struct perf_tally *tally);

/* The one number of a round: us for lat (median), MB/s or messages/s (mean). */
double perf_figure(const struct perf_run *run, const struct perf_tally *tally);

void perf_print_head(const struct perf_options *options);
void perf_print_row(const struct perf_options *options, const struct perf_row *row);

/* One line on a terminal's standard error, overwritten by the next; NULL wipes it. */
void perf_progress(const struct perf_run *run, uint32_t round, uint32_t rounds);

/* ---- rounds.c: all figures, all rounds ------------------------------------------------------ */

#define PERF_MAX_ROUNDS 100

/* With a connected team or a perf_local; limits may be NULL. Returns a tool's exit code. */
int perf_measure(const struct perf_options *options, struct perf_team *team, struct perf_local *local,
                 struct perf_limits *limits);

/* ---- options.c: the command line ------------------------------------------------------------ */

/* Bytes per message where no size was given: lat and rate; bw and bibw. */
#define PERF_DEFAULT_SMALL 8
#define PERF_DEFAULT_STREAM 65536

enum perf_format { PERF_TABLE, PERF_JSON, PERF_CSV };
enum perf_role { PERF_ROLE_NONE, PERF_ROLE_SERVER, PERF_ROLE_CLIENT, PERF_ROLE_PAIR, PERF_ROLE_LOCAL };

struct perf_options {
    enum perf_role role;
    const char *device; /* NULL: the default one */
    const char *host;   /* NULL: this one */
    const char *discriminator;
    VIP_RELIABILITY_LEVEL level;
    unsigned tests;    /* bits by enum perf_test */
    unsigned ops;      /* bits by enum perf_op */
    uint64_t min_size; /* 0: chosen by the test */
    uint64_t max_size;
    uint64_t depth;
    uint64_t duration_ns;
    uint64_t iterations; /* 0: by duration */
    uint64_t warmup;
    uint64_t rounds;
    uint64_t threads;
    uint64_t connections; /* of each */
    uint64_t timeout_ms;
    int cpus[2]; /* client, server; -1: do not pin */
    bool cpus_given;
    bool block;
    bool verify;
    bool cq;
    bool shared_memory; /* of VipxAllocShared() */
    bool polls;         /* the receiver of RDMA Writes calls the library between looks at memory */
    unsigned limits;    /* bits by enum perf_limit */
    enum perf_format format;
    bool once;
};

/* Returns an exit code, or -1 to go on. */
int perf_parse(int argc, char **argv, struct perf_options *options);

#endif
