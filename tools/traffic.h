/* SPDX-License-Identifier: MIT */
/*
 * What vipl-gen and vipl-cap have in common: numbers of the command line, and counters for people
 * and for programs.
 */
#ifndef VIPL_TOOLS_TRAFFIC_H
#define VIPL_TOOLS_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include <vipl/device_memory.h>

#include "traffic_plot.h"

/* Something was lost; beside the exit codes of every tool (tool_text.h). */
enum { TRAFFIC_LOST = 3 };

/* How long a call of the library takes at most: signals are looked at in between. */
#define TRAFFIC_SLICE_NS UINT64_C(50000000)

/* What both command lines have. */
struct traffic_options {
    struct vipl_dm_path path;
    uint64_t stats_ns; /* between two lines of counters; 0: none */
    bool json;
    bool explain;
    const char *plot; /* where a picture of the rate over time goes, or NULL */
};

/* A decimal number with a point, times `scale`, a power of ten; behind it K, M, G or T (powers of
 * 1,000). 1 to `most`; digits that do not count are an error. */
bool traffic_parse_decimal(const char *text, uint64_t scale, uint64_t most, uint64_t *value);

/* Of the options that both command lines have: whether `option` is one, and into *is_right whether
 * its value is. */
bool traffic_take_option(struct traffic_options *options, int option, const char *value, bool *is_right);

/* Remembers the counters between two lines. */
struct traffic_meter {
    struct vipl_dm_counters before;
    uint64_t start; /* of the tool's clock */
    uint64_t next;  /* when the next line is due */
    uint64_t last;  /* when the last one was */
    struct traffic_plot plot;
};

void traffic_meter_start(struct traffic_meter *meter, const struct traffic_options *options);
/* Prints a line if it is due, and takes a sample for the picture. */
void traffic_meter_look(struct traffic_meter *meter, const struct traffic_options *options,
                        const struct vipl_dm_counters *counters);

/* The end: all counters, as text or as one JSON object, and the picture. Returns the exit code. */
int traffic_report(struct traffic_meter *meter, const struct traffic_options *options,
                   const struct vipl_dm_counters *counters, bool is_sender, bool is_whole);

#endif
