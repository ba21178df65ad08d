/* SPDX-License-Identifier: MIT */
/*
 * VIPL_TRACE: one line for each call from core to a backend, or only for the operations that
 * VIPL_TRACE_OPS names. Each line is appended to a file ("-": standard error) by one write, so that
 * threads, NIC handles and processes may share the file. docs/use/faults.md has the format.
 */
#ifndef VIPL_HOOK_TRACE_H
#define VIPL_HOOK_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os_compiler.h"
#include "vipl/vipl.h"

/* The operations that are traced. */
enum vipl_traced {
    VIPL_TRACED_OPEN,
    VIPL_TRACED_CLOSE,
    VIPL_TRACED_DESCRIBE,
    VIPL_TRACED_LIMITS,
    VIPL_TRACED_ADDRESS,
    VIPL_TRACED_RESOLVE,
    VIPL_TRACED_REVERSE,
    VIPL_TRACED_REGION_ADD,
    VIPL_TRACED_REGION_REMOVE,
    VIPL_TRACED_REGION_CHANGE,
    VIPL_TRACED_REGIONS_END,
    VIPL_TRACED_MEMORY_ALLOC,
    VIPL_TRACED_MEMORY_FREE,
    VIPL_TRACED_VI_CREATE,
    VIPL_TRACED_VI_DESTROY,
    VIPL_TRACED_LISTEN,
    VIPL_TRACED_UNLISTEN,
    VIPL_TRACED_CONNECT,
    VIPL_TRACED_CONNECT_CANCEL,
    VIPL_TRACED_CONN_TAKEN,
    VIPL_TRACED_CONN_ACCEPT,
    VIPL_TRACED_CONN_REJECT,
    VIPL_TRACED_REVOKE,
    VIPL_TRACED_QUIESCE,
    VIPL_TRACED_DISCONNECT,
    VIPL_TRACED_POST_SEND,
    VIPL_TRACED_POST_RECV,
    VIPL_TRACED_OPERATIONS
};

/* Constant between vipl_trace_open() and vipl_trace_close(). */
struct vipl_trace {
    int fd;            /* less than 0: no trace */
    uint32_t selected; /* a bit for each operation whose calls are written */
    void *nic;         /* the NIC handle */
    uint64_t start;
};

/* Opens a trace. `only` has the names of the operations to trace, separated by commas; "": all. An
 * unknown name is logged and ignored. */
void vipl_trace_open(struct vipl_trace *trace, const char *path, const char *only, void *nic);
void vipl_trace_close(struct vipl_trace *trace);
const char *vipl_trace_code(VIP_RETURN rc); /* the name of a code, without VIP_ */

static inline bool vipl_trace_has(const struct vipl_trace *trace, enum vipl_traced op)
{
    return (trace->selected >> op & 1) != 0;
}
/* Writes a line for an operation; no effect if the operation is not traced. */
VIPL_FORMAT(4, 5)
void vipl_trace(struct vipl_trace *trace, enum vipl_traced op, const void *vi, const char *format, ...);

#endif
