/* SPDX-License-Identifier: MIT */
/* What a running adapter tells about itself: text, to a process that connects to its socket's path with ".stats" behind it. */
#ifndef ADAPTER_STATS_H
#define ADAPTER_STATS_H

#include "adapter/function.h"

struct rnic_adapter;

struct rnic_stats {
    struct rnic_source source;
    struct rnic_adapter *adapter;
    int fd; /* -1: it does not listen */
    int lock;
    char path[112];
};

int rnic_stats_open(struct rnic_stats *stats, struct rnic_adapter *adapter, const char *socket);
void rnic_stats_close(struct rnic_stats *stats);
/* The text. Returns its length. */
size_t rnic_stats_write(struct rnic_adapter *adapter, char *text, size_t size);

#endif
