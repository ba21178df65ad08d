/* SPDX-License-Identifier: MIT */
/* Many connections, one after the other, between the VIs of a requesting end and those of an
 * accepting one. */
#ifndef VIPL_BENCH_PAIRS_H
#define VIPL_BENCH_PAIRS_H

#include <stdbool.h>

#include <vipl/vipl.h>

/* One end; both may be of one NIC handle. */
struct bench_end {
    VIP_NIC_HANDLE nic;
    const char *name; /* where the accepting end waits, on this host */
    VIP_VI_HANDLE *vis;
    unsigned long count;
};

/* A call's code is VIP_SUCCESS; else it has been said what it is. */
bool bench_right(const char *what, VIP_RETURN rc);
/* As many connections as the system has descriptors for: each over tcp takes one at both ends. */
void bench_raise_limits(void);
/* Accepts for all of the end's VIs. */
bool bench_accept(const struct bench_end *end);
/* The same as a thread's main function; NULL: it failed. */
void *bench_accept_thread(void *end);
/* Requests, for VIs of the end; who accepts waits, or is about to. */
bool bench_request(const struct bench_end *end, unsigned long first, unsigned long count);

#endif
