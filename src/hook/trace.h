/* SPDX-License-Identifier: MIT */
/*
 * VIPL_TRACE: one line for each call from core to a backend, appended to a file ("-": stderr) in one
 * piece, so that threads, NIC handles and processes may share it. docs/faults.md has the format.
 */
#ifndef VIPL_HOOK_TRACE_H
#define VIPL_HOOK_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "vipl/vipl.h"

struct vipl_trace {
    FILE *file; /* NULL: no trace */
    void *nic;  /* the NIC handle */
    uint64_t start;
};

void vipl_trace_open(struct vipl_trace *trace, const char *path, void *nic);
void vipl_trace_close(struct vipl_trace *trace);
const char *vipl_trace_code(VIP_RETURN rc); /* its name, without VIP_ */

/* A line of operation `op`; does nothing without a trace. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
void vipl_trace(struct vipl_trace *trace, const char *op, const void *vi, const char *format, ...);

#endif
