/* SPDX-License-Identifier: MIT */
/*
 * A picture of the rate over time, drawn by gnuplot, which is needed for nothing else. Samples are
 * taken as often as there is room for: when there are too many, every second one goes, and the next
 * ones are twice as far apart. A picture of a day takes as much memory as one of a second.
 */
#ifndef VIPL_TOOLS_TRAFFIC_PLOT_H
#define VIPL_TOOLS_TRAFFIC_PLOT_H

#include <stdbool.h>
#include <stdint.h>

#include <vipl/device_memory.h>

enum { TRAFFIC_MOST_SAMPLES = 1024 };

/* Counters at a time; all since the start. */
struct traffic_sample {
    uint64_t ns;
    uint64_t packets;
    uint64_t bytes;
    uint64_t lost;
};

struct traffic_plot {
    const char *path; /* of the picture; NULL: there is none */
    uint64_t start;   /* of the tool's clock */
    uint64_t apart;   /* nanoseconds between two samples */
    unsigned count;
    struct traffic_sample sample[TRAFFIC_MOST_SAMPLES];
};

/* Whether the picture can be drawn: its name says how, and there is gnuplot. False: it has
 * complained. To be asked before the first packet. */
bool traffic_plot_is_possible(const char *path);

/* path NULL: the plot stays empty, and nothing is drawn. */
void traffic_plot_start(struct traffic_plot *plot, const char *path, uint64_t now);
/* Takes a sample if it is due, or at the end. */
void traffic_plot_look(struct traffic_plot *plot, uint64_t now, const struct vipl_dm_counters *counters,
                       bool is_end);
/* Draws it. False: it has complained. */
bool traffic_plot_draw(const struct traffic_plot *plot, const char *title);

#endif
