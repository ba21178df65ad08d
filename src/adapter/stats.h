/* SPDX-License-Identifier: MIT */
/* What a running adapter tells about itself: text, to a process that connects to its socket's path
 * with ".stats" behind it. */
#ifndef ADAPTER_STATS_H
#define ADAPTER_STATS_H

#include "adapter/listen.h"

struct rnic_adapter;

void rnic_stats_init(struct rnic_listener *stats, struct rnic_adapter *adapter);
/* The path at which those ask who ask about the adapter that serves this socket. ENAMETOOLONG: it
 * has none. */
int rnic_stats_path(const char *socket, char path[RNIC_MAX_PATH]);
/* The text. Returns its length. */
size_t rnic_stats_write(struct rnic_adapter *adapter, char *text, size_t size);

/* stats_print.c, for vipl-rnicd --stats: asks the adapter of that socket and prints its text, once,
 * or (seconds > 0) again and again. Returns 0, or an errno value: no adapter runs there. */
int rnic_stats_print(const char *socket, unsigned seconds);

#endif
