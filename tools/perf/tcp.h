/* SPDX-License-Identifier: MIT */
/* Messages over a plain TCP connection between the two processes of limits.c. */
#ifndef VIPL_PERF_TCP_H
#define VIPL_PERF_TCP_H

#include <stdbool.h>
#include <stdint.h>

#include "hist.h"

struct perf_tcp_order {
    uint32_t size; /* bytes per message */
    uint32_t count;
    bool stream; /* one way, and one byte back at the end; else each message is sent back */
    bool block;
};

/* A connection from this host to itself, before the fork. Ends that were made are the caller's in
 * any case; -1: not. */
bool perf_tcp_open(int ends[2]);

/* The second process's part. `memory` holds a message. */
bool perf_tcp_answer(int fd, unsigned char *memory, const struct perf_tcp_order *order);

/* The first's: round trips in ns, added to `hist`; the ns that a stream took, or 0. */
bool perf_tcp_pings(int fd, unsigned char *memory, const struct perf_tcp_order *order,
                    struct perf_hist *hist);
uint64_t perf_tcp_stream(int fd, unsigned char *memory, const struct perf_tcp_order *order);

#endif
