/* SPDX-License-Identifier: MIT */
/* The statistics of a running adapter: text, which a process gets that connects to the path of the
 * adapter's socket with ".stats" appended. */
#ifndef ADAPTER_STATS_H
#define ADAPTER_STATS_H

#include "adapter/listen.h"

struct rnic_adapter;

/* Initializes the listener that sends the statistics. */
void rnic_stats_init(struct rnic_listener *stats, struct rnic_adapter *adapter);
/* Stores the path of the statistics of the adapter that serves `socket`. ENAMETOOLONG: the path
 * would be too long. */
int rnic_stats_path(const char *socket, char path[RNIC_MAX_PATH]);
/* Writes the text and returns its length. */
size_t rnic_stats_write(struct rnic_adapter *adapter, char *text, size_t size);

/* stats_print.c, for vipl-rnicd --stats: asks the adapter of that socket and prints its text, once,
 * or (seconds > 0) again and again. Returns 0, or an errno value: no adapter runs there. */
int rnic_stats_print(const char *socket, unsigned seconds);

#endif
