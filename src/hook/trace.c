/* SPDX-License-Identifier: MIT */
/* Writing the trace. Each line is built first and appended by one write(), so that lines of several
 * writers do not mix. */
#include "hook/trace.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "os/os.h"
#include "os/os_atomic.h"

enum { LINE = 512, STANDARD_ERROR = 2 };

static const char *const op_names[] = {
    [VIPL_TRACED_OPEN] = "open",
    [VIPL_TRACED_CLOSE] = "close",
    [VIPL_TRACED_DESCRIBE] = "describe",
    [VIPL_TRACED_LIMITS] = "limits",
    [VIPL_TRACED_ADDRESS] = "address",
    [VIPL_TRACED_RESOLVE] = "resolve",
    [VIPL_TRACED_REVERSE] = "reverse",
    [VIPL_TRACED_REGION_ADD] = "region_add",
    [VIPL_TRACED_REGION_REMOVE] = "region_remove",
    [VIPL_TRACED_REGION_CHANGE] = "region_change",
    [VIPL_TRACED_REGIONS_END] = "regions_end",
    [VIPL_TRACED_MEMORY_ALLOC] = "memory_alloc",
    [VIPL_TRACED_MEMORY_FREE] = "memory_free",
    [VIPL_TRACED_VI_CREATE] = "vi_create",
    [VIPL_TRACED_VI_DESTROY] = "vi_destroy",
    [VIPL_TRACED_LISTEN] = "listen",
    [VIPL_TRACED_UNLISTEN] = "unlisten",
    [VIPL_TRACED_CONNECT] = "connect",
    [VIPL_TRACED_CONNECT_CANCEL] = "connect_cancel",
    [VIPL_TRACED_CONN_TAKEN] = "conn_taken",
    [VIPL_TRACED_CONN_ACCEPT] = "conn_accept",
    [VIPL_TRACED_CONN_REJECT] = "conn_reject",
    [VIPL_TRACED_REVOKE] = "revoke",
    [VIPL_TRACED_QUIESCE] = "quiesce",
    [VIPL_TRACED_DISCONNECT] = "disconnect",
    [VIPL_TRACED_POST_SEND] = "post_send",
    [VIPL_TRACED_POST_RECV] = "post_recv",
};

_Static_assert(VIPL_TRACED_OPERATIONS <= 32, "each has a bit");

/* A thread gets its number when it writes its first line. */
static uint32_t threads_seen; /* atomic */
static _Thread_local uint32_t thread_number;

static uint32_t number_of_thread(void)
{
    if (thread_number == 0) {
        thread_number = vipl_fetch_add(&threads_seen, 1) + 1;
    }
    return thread_number;
}

/* Returns the bit of an operation; 0: no operation has that name. */
static uint32_t bit_of(const char *name, size_t length)
{
    for (unsigned op = 0; op < VIPL_TRACED_OPERATIONS; op++) {
        if (strlen(op_names[op]) == length && memcmp(op_names[op], name, length) == 0) {
            return UINT32_C(1) << op;
        }
    }
    return 0;
}

static uint32_t read_selection(const char *only)
{
    static const char between[] = ", \t";
    uint32_t selected = 0;
    bool all = true;
    for (const char *at = only + strspn(only, between); *at != '\0'; at += strspn(at, between)) {
        size_t length = strcspn(at, between);
        uint32_t bit = bit_of(at, length);
        if (bit == 0) {
            vipl_log(VIPL_LOG_ERROR, "VIPL_TRACE_OPS: \"%.*s\" is no operation and is left out", (int)length,
                     at);
        }
        selected |= bit;
        all = false;
        at += length;
    }
    return all ? UINT32_MAX : selected;
}

/* Opens the file of the trace. -1: the file cannot be opened. */
static int open_file(const char *path)
{
    int fd = STANDARD_ERROR;
    int error = strcmp(path, "-") == 0 ? 0 : vipl_fd_append(path, &fd);
    if (error != 0) {
        char what[LINE];
        snprintf(what, sizeof(what), "VIPL_TRACE=%s", path);
        vipl_log_os(VIPL_LOG_ERROR, what, error);
        return -1;
    }
    return fd;
}

void vipl_trace_open(struct vipl_trace *trace, const char *path, const char *only, void *nic)
{
    trace->nic = nic;
    trace->start = vipl_now_ns();
    trace->fd = open_file(path);
    trace->selected = trace->fd < 0 ? 0 : read_selection(only);
}

void vipl_trace_close(struct vipl_trace *trace)
{
    if (trace->fd != STANDARD_ERROR) {
        vipl_fd_close(trace->fd);
    }
    trace->fd = -1;
    trace->selected = 0;
}

const char *vipl_trace_code(VIP_RETURN rc)
{
    return vipl_log_code(rc) + sizeof("VIP_") - 1;
}

void vipl_trace(struct vipl_trace *trace, enum vipl_traced op, const void *vi, const char *format, ...)
{
    char line[LINE];
    if (!vipl_trace_has(trace, op)) {
        return;
    }
    uint64_t ns = vipl_now_ns() - trace->start;
    int n = snprintf(line, sizeof(line), "%llu.%03u %d.%u %s nic=%p vi=%p ", (unsigned long long)(ns / 1000),
                     (unsigned)(ns % 1000), vipl_pid(), (unsigned)number_of_thread(), op_names[op],
                     trace->nic, vi);
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, args);
    va_end(args);
    strcat(line, "\n"); /* vsnprintf left room for it */
    vipl_write_text(trace->fd, line, strlen(line));
}
