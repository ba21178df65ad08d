/* SPDX-License-Identifier: MIT */
/*
 * Rows of figures, as a table, as CSV or as one JSON object a line, and the line that shows
 * progress.
 *
 * Latency: percentiles of the samples, in us. Bandwidth and rate: each sample is a window of
 * messages; "min" is the slowest window, "p99" what 99 % of the windows reach, and the mean comes
 * from all messages and the whole time, the last acknowledgement included.
 */
#include "perf.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include <vipl/version.h>

#include "tool_text.h"

#define SCHEMA 1

static const char *const limit_names[PERF_LIMIT_COUNT] = {"shm", "memcpy", "vmread", "tcp"};

const char *perf_test_text(enum perf_test test)
{
    static const char *const names[PERF_TESTS] = {"lat", "bw", "bibw", "rate"};

    return names[test];
}

const char *perf_op_text(enum perf_op op)
{
    static const char *const names[PERF_OPS] = {"send", "write", "read"};

    return names[op];
}

/* ---- figures --------------------------------------------------------------------------------- */

/* Messages that `run->count` stands for: both directions count. */
static double directions(const struct perf_run *run)
{
    return run->test == PERF_BIBW ? 2 : 1;
}

/* us of one message, from a sample in ns: half a round trip, a whole read, a message of a batch. */
static double latency(const struct perf_run *run, const struct perf_tally *tally, double ns)
{
    if (tally->window > 0) { /* perf_local */
        return ns / 1e3 / (double)tally->window;
    }
    return run->op == PERF_READ ? ns / 1e3 : ns / 2e3;
}

/* MB/s or million messages a second, from the ns that `messages` took. */
static double speed(const struct perf_run *run, double messages, double ns)
{
    double per_message = run->test == PERF_RATE ? 1 : (double)run->size;

    return ns > 0 ? messages * per_message * directions(run) * 1e3 / ns : NAN;
}

/* A percentile of the rows: for speeds the share of windows that reach it. */
static double figure_at(const struct perf_run *run, const struct perf_tally *tally, double share)
{
    double ns = perf_hist_at(tally->hist, share);

    return run->test == PERF_LAT ? latency(run, tally, ns) : speed(run, (double)tally->window, ns);
}

double perf_figure(const struct perf_run *run, const struct perf_tally *tally)
{
    return run->test == PERF_LAT ? figure_at(run, tally, 0.5)
                                 : speed(run, (double)tally->messages, (double)tally->elapsed_ns);
}

void perf_row_fill(struct perf_row *row, const struct perf_tally *tally)
{
    const struct perf_run *run = &row->run;
    const struct perf_hist *hist = tally->hist;
    bool lat = run->test == PERF_LAT;

    row->unit = lat ? "us" : run->test == PERF_RATE ? "M/s" : "MB/s";
    row->samples = hist->count;
    row->min = lat ? latency(run, tally, (double)hist->least)
                   : speed(run, (double)tally->window, (double)hist->most);
    row->max = lat ? latency(run, tally, (double)hist->most)
                   : speed(run, (double)tally->window, (double)hist->least);
    if (hist->count == 0) {
        row->min = NAN;
        row->max = NAN;
    }
    row->median = figure_at(run, tally, 0.5);
    row->p90 = figure_at(run, tally, 0.9);
    row->p99 = figure_at(run, tally, 0.99);
    row->p999 = figure_at(run, tally, 0.999);
    row->p9999 = figure_at(run, tally, 0.9999);
    row->mean = lat ? latency(run, tally, hist->count > 0 ? (double)hist->sum / (double)hist->count : NAN)
                    : speed(run, (double)tally->messages, (double)tally->elapsed_ns);
    row->wrong = tally->wrong;
}

/* ---- table ----------------------------------------------------------------------------------- */

static void print_figure(double value)
{
    char text[48];

    printf(" %10s", tool_number_text(value, value < 1000 ? 3 : 0, text, sizeof(text)));
}

static bool wants_limit(const struct perf_options *options, size_t which)
{
    return (options->limits & (1u << which)) != 0;
}

static void print_table_head(const struct perf_options *options)
{
    printf("%-4s %-5s %9s %-5s %-4s %10s %10s %10s %10s %10s %10s %10s %10s", "test", "op", "bytes", "wait",
           "unit", "min", "median", "p90", "p99", "p99.9", "p99.99", "max", "mean");
    if (options->rounds > 1) {
        printf(" %21s", "rounds' figures");
    }
    for (size_t i = 0; i < PERF_LIMIT_COUNT; i++) {
        if (wants_limit(options, i)) {
            printf(" %10s %6s", limit_names[i], "ratio");
        }
    }
    puts("");
}

static void print_table_row(const struct perf_options *options, const struct perf_row *row)
{
    char text[48];

    printf("%-4s %-5s %9u %-5s %-4s", perf_test_text(row->run.test), perf_op_text(row->run.op), row->run.size,
           row->run.block ? "block" : "poll", row->unit);
    print_figure(row->min);
    print_figure(row->median);
    print_figure(row->p90);
    print_figure(row->p99);
    print_figure(row->p999);
    print_figure(row->p9999);
    print_figure(row->max);
    print_figure(row->mean);
    if (options->rounds > 1) {
        print_figure(row->round_min);
        print_figure(row->round_max);
    }
    for (size_t i = 0; i < PERF_LIMIT_COUNT; i++) {
        if (wants_limit(options, i)) {
            print_figure(row->limit[i]);
            printf(" %6s", tool_number_text(row->ratio[i], 2, text, sizeof(text)));
        }
    }
    if (row->wrong > 0) {
        printf("  %llu WRONG", (unsigned long long)row->wrong);
    } else if (row->run.verify) {
        printf("  verified");
    }
    puts("");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_figure(const char *key, double value)
{
    printf(", \"%s\": ", key);
    tool_json_number(stdout, value, 4);
}

static void json_limits(const struct perf_options *options, const struct perf_row *row)
{
    char key[32];

    for (size_t i = 0; i < PERF_LIMIT_COUNT; i++) {
        if (!wants_limit(options, i)) {
            continue;
        }
        snprintf(key, sizeof(key), "limit_%s", limit_names[i]);
        json_figure(key, row->limit[i]);
        snprintf(key, sizeof(key), "ratio_%s", limit_names[i]);
        json_figure(key, row->ratio[i]);
    }
}

static const char *unit_key(const char *unit)
{
    return strcmp(unit, "us") == 0    ? "us"
           : strcmp(unit, "M/s") == 0 ? "million_messages_per_s"
                                      : "megabytes_per_s";
}

static void print_json_row(const struct perf_options *options, const struct perf_row *row)
{
    printf("{\"schema\": %d, \"version\": \"%s\", \"test\": \"%s\", \"op\": \"%s\", \"device\": ", SCHEMA,
           VIPL_VERSION_STRING, perf_test_text(row->run.test), perf_op_text(row->run.op));
    tool_json_string(stdout, row->device.text);
    printf(", \"reliability\": \"%s\", \"processes\": %d, \"size\": %u, \"size_unit\": \"bytes\"",
           tool_level_text(options->level), options->role == PERF_ROLE_LOCAL ? 1 : 2, row->run.size);
    printf(", \"memory\": \"%s\", \"receiver\": \"%s\", \"threads\": %u, \"connections\": %u",
           options->shared_memory ? "shared" : "heap", options->polls ? "poll" : "memory",
           (unsigned)options->threads, (unsigned)options->connections);
    printf(", \"wait\": \"%s\", \"cq\": %s, \"depth\": %u, \"rounds\": %u, \"samples\": %llu",
           row->run.block ? "block" : "poll", options->cq ? "true" : "false", row->depth, row->rounds,
           (unsigned long long)row->samples);
    printf(", \"unit\": \"%s\"", unit_key(row->unit));
    json_figure("min", row->min);
    json_figure("median", row->median);
    json_figure("p90", row->p90);
    json_figure("p99", row->p99);
    json_figure("p999", row->p999);
    json_figure("p9999", row->p9999);
    json_figure("max", row->max);
    json_figure("mean", row->mean);
    json_figure("round_min", row->round_min);
    json_figure("round_max", row->round_max);
    json_limits(options, row);
    printf(", \"verified\": %s, \"wrong\": %llu}\n", row->run.verify ? "true" : "false",
           (unsigned long long)row->wrong);
}

/* ---- CSV: the columns are JSON's members, what was not measured is empty --------------------- */

static void print_csv_head(void)
{
    printf(
        "version,test,op,device,reliability,processes,size,memory,receiver,threads,connections,wait,cq,depth,"
        "rounds,samples,unit,min,median,p90,p99,"
        "p999,p9999,max,mean,round_min,round_max");
    for (size_t i = 0; i < PERF_LIMIT_COUNT; i++) {
        printf(",limit_%s,ratio_%s", limit_names[i], limit_names[i]);
    }
    puts(",verified,wrong");
}

/* In quotes, a quote within doubled. */
static void csv_text(const char *text)
{
    printf(",\"");
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            putchar('"');
        }
        putchar(*text);
    }
    putchar('"');
}

static void csv_figure(double value)
{
    putchar(',');
    if (!isnan(value)) {
        tool_json_number(stdout, value, 4);
    }
}

static void print_csv_row(const struct perf_options *options, const struct perf_row *row)
{
    const double figures[] = {row->min,   row->median, row->p90,  row->p99,       row->p999,
                              row->p9999, row->max,    row->mean, row->round_min, row->round_max};

    printf("%s,%s,%s", VIPL_VERSION_STRING, perf_test_text(row->run.test), perf_op_text(row->run.op));
    csv_text(row->device.text);
    printf(",%s,%d,%u,%s,%s,%u,%u", tool_level_text(options->level), options->role == PERF_ROLE_LOCAL ? 1 : 2,
           row->run.size, options->shared_memory ? "shared" : "heap", options->polls ? "poll" : "memory",
           (unsigned)options->threads, (unsigned)options->connections);
    printf(",%s,%s,%u,%u,%llu,%s", row->run.block ? "block" : "poll", options->cq ? "true" : "false",
           row->depth, row->rounds, (unsigned long long)row->samples, unit_key(row->unit));
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        csv_figure(figures[i]);
    }
    for (size_t i = 0; i < PERF_LIMIT_COUNT; i++) {
        csv_figure(wants_limit(options, i) ? row->limit[i] : NAN);
        csv_figure(wants_limit(options, i) ? row->ratio[i] : NAN);
    }
    printf(",%s,%llu\n", row->run.verify ? "true" : "false", (unsigned long long)row->wrong);
}

/* ---- what main calls ------------------------------------------------------------------------- */

void perf_print_head(const struct perf_options *options)
{
    if (options->format == PERF_TABLE) {
        print_table_head(options);
    } else if (options->format == PERF_CSV) {
        print_csv_head();
    }
    fflush(stdout);
}

void perf_print_row(const struct perf_options *options, const struct perf_row *row)
{
    switch (options->format) {
    case PERF_JSON:
        print_json_row(options, row);
        break;
    case PERF_CSV:
        print_csv_row(options, row);
        break;
    default:
        print_table_row(options, row);
        break;
    }
    fflush(stdout);
}

void perf_progress(const struct perf_run *run, uint32_t round, uint32_t rounds)
{
    if (!isatty(STDERR_FILENO)) {
        return;
    }
    if (run == NULL) {
        fprintf(stderr, "\r\033[K");
    } else {
        fprintf(stderr, "\r\033[K%s %s, %u bytes, round %u of %u", perf_test_text(run->test),
                perf_op_text(run->op), run->size, round, rounds);
    }
    fflush(stderr);
}
