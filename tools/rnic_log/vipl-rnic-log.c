/* SPDX-License-Identifier: MIT */
/*
 * vipl-rnic-log: reads the transaction log of an emulated RDMA card.
 *
 * A log is read once, in order: each transaction is followed for the places of the rings, selected,
 * and given to the output. A waveform's wires are declared before its first change, so that its log
 * is read twice.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "adapter/log.h"
#include "card.h"
#include "coverage.h"
#include "explain.h"
#include "options.h"
#include "read.h"
#include "replay.h"
#include "rings.h"
#include "select.h"
#include "tool_text.h"
#include "vcd.h"

/* Where what is selected goes. */
struct output {
    const struct log_options *options;
    FILE *file;
    struct rnic_log log; /* LOG_AS_LOG */
    struct vcd vcd;
    struct coverage *coverage;
    bool has[RNIC_CARD_MAX_FUNCTIONS]; /* functions of a waveform */
    bool adapter;
};

typedef void emitter(struct output *output, const struct rnic_transaction *transaction,
                     const struct ring_entry *entry);

/* Gives what is selected of one log to `emit`. Returns an exit code. */
static int read_log(struct output *output, const char *path, emitter *emit)
{
    struct log_reader reader;
    struct rnic_transaction transaction;
    struct ring_entry entry;
    struct selection selection;
    struct rings *rings = rings_new();
    enum log_got got = LOG_GOT_ONE;
    int error = rings == NULL ? ENOMEM : log_read_open(&reader, path);

    if (error != 0) {
        tool_complain("%s: %s", path, strerror(error));
        rings_free(rings);
        return TOOL_FAILED;
    }
    select_begin(&selection, output->options);
    while (!selection.over && (got = log_read_next(&reader, &transaction)) == LOG_GOT_ONE) {
        const struct ring_entry *known = rings_follow(rings, &transaction, &entry) ? &entry : NULL;
        if (select_wants(&selection, &transaction, known)) {
            emit(output, &transaction, known);
        }
    }
    log_read_complain(&reader, path);
    log_read_close(&reader);
    rings_free(rings);
    return got == LOG_GOT_DAMAGE ? TOOL_FAILED : TOOL_OK;
}

static void emit_log(struct output *output, const struct rnic_transaction *transaction,
                     const struct ring_entry *entry)
{
    (void)entry;
    rnic_log_write(&output->log, transaction);
}

static void emit_words(struct output *output, const struct rnic_transaction *transaction,
                       const struct ring_entry *entry)
{
    explain(output->file, transaction, entry);
}

static void emit_vcd(struct output *output, const struct rnic_transaction *transaction,
                     const struct ring_entry *entry)
{
    (void)entry;
    vcd_add(&output->vcd, transaction);
}

static void emit_function(struct output *output, const struct rnic_transaction *transaction,
                          const struct ring_entry *entry)
{
    (void)entry;
    if (transaction->fn < RNIC_CARD_MAX_FUNCTIONS) {
        output->has[transaction->fn] = true;
    } else {
        output->adapter = true;
    }
}

static void emit_coverage(struct output *output, const struct rnic_transaction *transaction,
                          const struct ring_entry *entry)
{
    coverage_add(output->coverage, transaction, entry);
}

/* --- outputs --- */

static int write_vcd(struct output *output, const char *path)
{
    int code = read_log(output, path, emit_function);

    vcd_begin(&output->vcd, output->file, output->has, output->adapter);
    if (code == TOOL_OK) {
        code = read_log(output, path, emit_vcd);
    }
    vcd_end(&output->vcd);
    return code;
}

static int write_coverage(struct output *output)
{
    const struct log_options *options = output->options;
    int code = TOOL_OK;

    output->coverage = coverage_new();
    if (output->coverage == NULL) {
        tool_complain("%s", strerror(ENOMEM));
        return TOOL_FAILED;
    }
    for (int i = 0; i < options->count; i++) {
        coverage_begin(output->coverage);
        if (read_log(output, options->files[i], emit_coverage) != TOOL_OK) {
            code = TOOL_FAILED;
        }
    }
    (options->json ? coverage_print_json : coverage_print)(output->coverage, output->file);
    coverage_free(output->coverage);
    return code;
}

static int write_output(struct output *output)
{
    const struct log_options *options = output->options;

    switch (options->what) {
    case LOG_AS_LOG:
        return read_log(output, options->files[0], emit_log);
    case LOG_AS_WORDS:
        return read_log(output, options->files[0], emit_words);
    case LOG_AS_VCD:
        return write_vcd(output, options->files[0]);
    default:
        return write_coverage(output);
    }
}

/* A log that is its own output would be empty before it is read. */
static bool is_an_input(const struct log_options *options)
{
    struct stat output;
    struct stat input;

    if (options->output == NULL || stat(options->output, &output) != 0 || !S_ISREG(output.st_mode)) {
        return false;
    }
    for (int i = 0; i < options->count; i++) {
        if (stat(options->files[i], &input) == 0 && input.st_dev == output.st_dev &&
            input.st_ino == output.st_ino) {
            return true;
        }
    }
    return false;
}

static int open_output(struct output *output)
{
    const struct log_options *options = output->options;
    const char *path = options->output;

    output->file = path == NULL ? stdout : fopen(path, "wb");
    if (output->file == NULL) {
        return errno;
    }
    if (options->what == LOG_AS_LOG) {
        rnic_log_to(&output->log, output->file, path == NULL || rnic_log_is_text(path));
    }
    return 0;
}

/* Returns an errno value of anything that was not written. */
static int close_output(struct output *output)
{
    int error = 0;

    if (output->log.file != NULL) {
        rnic_log_flush(&output->log);
        error = rnic_log_error(&output->log);
        rnic_log_close(&output->log);
        return error;
    }
    error = ferror(output->file) != 0 ? EIO : 0;
    return fclose(output->file) != 0 ? errno : error;
}

int main(int argc, char **argv)
{
    struct log_options options;
    struct output output = {.options = &options};
    int code;
    int error;

    tool_name = "vipl-rnic-log";
    code = log_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    if (options.what == LOG_AS_REPLAY) {
        return options.card != NULL ? replay_to_card(&options) : replay(&options);
    }
    if (is_an_input(&options)) {
        tool_complain("%s: it is the log itself", options.output);
        return TOOL_USAGE;
    }
    error = open_output(&output);
    if (error == 0) {
        code = write_output(&output);
        error = close_output(&output);
    }
    if (error != 0) {
        tool_complain("%s: %s", options.output == NULL ? "standard output" : options.output, strerror(error));
        return TOOL_FAILED;
    }
    return code;
}
