/* SPDX-License-Identifier: MIT */
/* The command line of vipl-rnicd. */
#ifndef ADAPTER_OPTIONS_H
#define ADAPTER_OPTIONS_H

#include "adapter/adapter.h"

enum rnic_option_result {
    RNIC_OPTIONS_RUN,
    RNIC_OPTIONS_HELP,
    RNIC_OPTIONS_VERSION,
    RNIC_OPTIONS_STATS,
    RNIC_OPTIONS_WRONG
};

struct rnic_options {
    struct rnic_adapter_config adapter;
    /* descriptor for the byte that says that the adapter runs in the background; -1: it stays in
     * the foreground */
    int lifeline;
    bool asks_stats;
    uint32_t stats_seconds; /* pause between two prints; 0: print once */
};

/* Sets the default of every option. */
void rnic_options_init(struct rnic_options *options);
/* Reads the arguments. RNIC_OPTIONS_WRONG: `text` says what is wrong. The options point to the
 * arguments. */
enum rnic_option_result rnic_options_read(struct rnic_options *options, int count, char **arguments,
                                          char *text, size_t size);
extern const char rnic_options_help[];

#endif
