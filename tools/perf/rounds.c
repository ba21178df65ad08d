/* SPDX-License-Identifier: MIT */
/*
 * The plan of a measurement: which figures, how many messages each, how often. All figures are
 * taken once a round, and the limits right after each, so that a slow second of the machine touches
 * a figure and its limits alike.
 */
#include "perf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool_os.h"
#include "tool_text.h"

#define FIRST_MESSAGES 32 /* of a warm-up */
#define SHORT_SEND 4096   /* bytes that travel in a ring between the processes */
#define MAX_FIGURES 512
#define MAX_COUNT UINT64_C(4000000000)

/* One row of the result and what it is made of. */
struct figure {
    struct perf_run run;
    struct perf_hist hist; /* all rounds */
    uint64_t elapsed_ns;
    uint64_t messages;
    uint64_t window;
    uint64_t wrong;
    double rounds[PERF_MAX_ROUNDS];
    double limits[PERF_LIMIT_COUNT][PERF_MAX_ROUNDS];
    double ratios[PERF_LIMIT_COUNT][PERF_MAX_ROUNDS];
};

/* Where runs happen: between two processes, or in this one. */
struct bench {
    const struct perf_options *options;
    struct perf_team *team;
    struct perf_local *local;
    struct perf_limits *limits;
    struct figure *figures;
    size_t figure_count;
};

static VIP_RETURN run_once(struct bench *bench, const struct perf_run *run, struct perf_tally *tally)
{
    VIP_RETURN rc;

    perf_hist_clear(tally->hist);
    tally->elapsed_ns = 0;
    tally->window = 0;
    tally->messages = bench->local != NULL ? run->count : 0;
    rc = bench->local != NULL ? perf_local_run(bench->local, run, tally)
                              : perf_team_run(bench->team, run, tally);
    return rc == VIP_SUCCESS && tool_stop ? VIP_INTERRUPTED : rc;
}

/* Warm up, and find how many messages take about the duration asked for. The first messages are
 * few, and not more follow than take an eighth of the time that a figure may take, however slow
 * they are. */
static VIP_RETURN calibrate(struct bench *bench, struct figure *figure)
{
    static struct perf_hist scratch;
    struct perf_tally tally = {.hist = &scratch};
    const struct perf_options *options = bench->options;
    uint64_t target = options->duration_ns;
    VIP_RETURN rc;

    figure->run.count = options->warmup < FIRST_MESSAGES ? options->warmup : FIRST_MESSAGES;
    rc = run_once(bench, &figure->run, &tally);
    while (rc == VIP_SUCCESS && tally.elapsed_ns < target / 8 && figure->run.count < MAX_COUNT / 4 &&
           (options->iterations == 0 || figure->run.count < options->warmup)) {
        figure->run.count *= 4;
        rc = run_once(bench, &figure->run, &tally);
    }
    figure->wrong += tally.wrong;
    if (options->iterations > 0) {
        figure->run.count = options->iterations;
    } else if (rc == VIP_SUCCESS && tally.elapsed_ns > 0) {
        double count = (double)figure->run.count * (double)target / (double)tally.elapsed_ns;

        figure->run.count = count < 1 ? 1 : count > (double)MAX_COUNT ? MAX_COUNT : (uint64_t)count;
    }
    return rc;
}

/* A limit is measured only where it is one: one process copies within its memory; two share memory,
 * or the system copies between them, for which a short send has no use. */
static bool is_limit(const struct bench *bench, enum perf_limit which, const struct perf_run *run)
{
    bool two = bench->local == NULL;

    switch (which) {
    case PERF_LIMIT_MEMCPY:
        return !two;
    case PERF_LIMIT_SHM:
        return two;
    case PERF_LIMIT_VMREAD:
        return two && (run->op != PERF_SEND || run->size > SHORT_SEND);
    default:
        return true;
    }
}

static void measure_limits(struct bench *bench, struct figure *figure, uint32_t round)
{
    /* a third of a round in all: short enough to alternate with VIPL, long enough to be steady */
    uint64_t duration = bench->options->duration_ns / 9;

    for (int which = 0; which < PERF_LIMIT_COUNT; which++) {
        double limit = NAN;

        if (bench->limits != NULL && (bench->options->limits & (1u << which)) != 0 &&
            is_limit(bench, (enum perf_limit)which, &figure->run)) {
            limit = perf_limits_measure(bench->limits, (enum perf_limit)which, &figure->run, duration);
        }
        figure->limits[which][round] = limit;
        figure->ratios[which][round] = figure->rounds[round] / limit;
    }
}

static VIP_RETURN measure(struct bench *bench, struct figure *figure, uint32_t round)
{
    static struct perf_hist hist;
    struct perf_tally tally = {.hist = &hist};
    VIP_RETURN rc;

    perf_progress(&figure->run, round + 1, (uint32_t)bench->options->rounds);
    rc = round == 0 ? calibrate(bench, figure) : VIP_SUCCESS;
    if (rc == VIP_SUCCESS) {
        rc = run_once(bench, &figure->run, &tally);
    }
    figure->wrong += tally.wrong;
    if (rc != VIP_SUCCESS) {
        return rc;
    }
    perf_hist_merge(&figure->hist, &hist);
    figure->elapsed_ns += tally.elapsed_ns;
    figure->messages += tally.messages;
    figure->window = tally.window;
    figure->rounds[round] = perf_figure(&figure->run, &tally);
    measure_limits(bench, figure, round);
    return VIP_SUCCESS;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static void add_figure(struct bench *bench, enum perf_test test, enum perf_op op, uint64_t size)
{
    struct figure *figure = &bench->figures[bench->figure_count];

    if (bench->figure_count == MAX_FIGURES) {
        return;
    }
    figure->run.test = test;
    figure->run.op = op;
    figure->run.size = (uint32_t)size;
    figure->run.block = bench->options->block;
    figure->run.verify = bench->options->verify;
    figure->run.polls = bench->options->polls;
    perf_hist_clear(&figure->hist);
    bench->figure_count++;
}

static void add_sizes(struct bench *bench, enum perf_test test, enum perf_op op)
{
    const struct perf_options *options = bench->options;
    bool small = test == PERF_LAT || test == PERF_RATE;

    if (options->min_size == 0) {
        add_figure(bench, test, op, small ? PERF_DEFAULT_SMALL : PERF_DEFAULT_STREAM);
        return;
    }
    for (uint64_t size = options->min_size; size <= options->max_size; size *= 2) {
        add_figure(bench, test, op, size);
    }
}

static void plan(struct bench *bench)
{
    for (unsigned test = 0; test < PERF_TESTS; test++) {
        for (unsigned op = 0; op < PERF_OPS; op++) {
            if ((bench->options->tests & (1u << test)) != 0 && (bench->options->ops & (1u << op)) != 0) {
                add_sizes(bench, (enum perf_test)test, (enum perf_op)op);
            }
        }
    }
}

static void report(struct bench *bench, struct figure *figure)
{
    struct perf_tally tally = {&figure->hist, figure->elapsed_ns, figure->window, figure->wrong,
                               figure->messages};
    struct perf_row row = {.run = figure->run, .rounds = (uint32_t)bench->options->rounds};
    bool alone = figure->run.test == PERF_LAT || bench->team == NULL;

    row.device =
        tool_device_name(bench->team != NULL ? bench->team->ends[0].nic : perf_local_nic(bench->local));
    row.depth = alone ? 1 : bench->team->ends[0].shape.depth;
    perf_row_fill(&row, &tally);
    perf_median(figure->rounds, row.rounds); /* sorts */
    row.round_min = figure->rounds[0];
    row.round_max = figure->rounds[row.rounds - 1];
    for (int which = 0; which < PERF_LIMIT_COUNT; which++) {
        row.limit[which] = perf_median(figure->limits[which], row.rounds);
        row.ratio[which] = perf_median(figure->ratios[which], row.rounds);
    }
    perf_progress(NULL, 0, 0);
    perf_print_row(bench->options, &row);
}

static int run_plan(struct bench *bench)
{
    uint32_t rounds = (uint32_t)bench->options->rounds;
    uint64_t wrong = 0;

    perf_print_head(bench->options);
    for (uint32_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < bench->figure_count; i++) {
            VIP_RETURN rc = measure(bench, &bench->figures[i], round);

            wrong += bench->figures[i].wrong;
            if (rc != VIP_SUCCESS) {
                perf_progress(NULL, 0, 0);
                return tool_stop ? TOOL_INTERRUPTED : TOOL_FAILED;
            }
            if (round + 1 == rounds) {
                report(bench, &bench->figures[i]);
            }
        }
    }
    if (wrong > 0) {
        tool_complain("messages with wrong bytes were received");
    }
    return wrong > 0 ? TOOL_FAILED : TOOL_OK;
}

int perf_measure(const struct perf_options *options, struct perf_team *team, struct perf_local *local,
                 struct perf_limits *limits)
{
    struct bench bench = {options, team, local, limits, NULL, 0};
    int code;

    bench.figures = calloc(MAX_FIGURES, sizeof(*bench.figures));
    if (bench.figures == NULL) {
        tool_complain("no memory");
        return TOOL_FAILED;
    }
    plan(&bench);
    code = run_plan(&bench);
    free(bench.figures);
    return code;
}
