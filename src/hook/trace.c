/* SPDX-License-Identifier: MIT */
/*
 * Writing the trace. A line is made in one piece and handed to a line-buffered stream opened for
 * appending: one write, which the system does not mix with another's.
 */
#include "hook/trace.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/log.h"
#include "os/os.h"
#include "os/os_atomic.h"

enum { LINE = 512 };

/* A thread's number is given to it with its first line. */
static uint32_t threads_seen; /* atomic */
static _Thread_local uint32_t thread_number;

static uint32_t number_of_thread(void)
{
    if (thread_number == 0) {
        thread_number = vipl_fetch_add(&threads_seen, 1) + 1;
    }
    return thread_number;
}

void vipl_trace_open(struct vipl_trace *trace, const char *path, void *nic)
{
    trace->nic = nic;
    trace->start = vipl_now_ns();
    if (strcmp(path, "-") == 0) {
        trace->file = stderr;
        return;
    }
    int fd;
    int error = vipl_fd_append(path, &fd);
    trace->file = error == 0 ? fdopen(fd, "a") : NULL;
    if (trace->file == NULL) {
        char what[LINE];
        error = error == 0 ? errno : error;
        vipl_fd_close(fd);
        snprintf(what, sizeof(what), "VIPL_TRACE=%s", path);
        vipl_log_os(VIPL_LOG_ERROR, what, error);
        return;
    }
    setvbuf(trace->file, NULL, _IOLBF, BUFSIZ);
}

void vipl_trace_close(struct vipl_trace *trace)
{
    if (trace->file != NULL && trace->file != stderr) {
        fclose(trace->file);
    }
    trace->file = NULL;
}

const char *vipl_trace_code(VIP_RETURN rc)
{
    return vipl_log_code(rc) + sizeof("VIP_") - 1;
}

void vipl_trace(struct vipl_trace *trace, const char *op, const void *vi, const char *format, ...)
{
    char line[LINE];
    if (trace->file == NULL) {
        return;
    }
    uint64_t ns = vipl_now_ns() - trace->start;
    int n = snprintf(line, sizeof(line), "%llu.%03u %d.%u %s nic=%p vi=%p ", (unsigned long long)(ns / 1000),
                     (unsigned)(ns % 1000), vipl_pid(), (unsigned)number_of_thread(), op, trace->nic, vi);
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, args);
    va_end(args);
    strcat(line, "\n"); /* vsnprintf left room for it */
    fputs(line, trace->file);
}
