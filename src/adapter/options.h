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
    /* on which to say that it runs, from the background; -1: it stays in the foreground */
    int lifeline;
    bool asks_stats;
    uint32_t stats_seconds; /* between looks at a running adapter; 0: one look */
};

/* What an adapter is like of which nothing is said. */
void rnic_options_init(struct rnic_options *options);
/* RNIC_OPTIONS_WRONG: `text` says what. The strings of the arguments are kept. */
enum rnic_option_result rnic_options_read(struct rnic_options *options, int count, char **arguments,
                                          char *text, size_t size);
extern const char rnic_options_help[];

#endif
