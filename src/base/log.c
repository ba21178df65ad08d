/* SPDX-License-Identifier: MIT */
/* The log: each line is built first and written by one call, so that lines of several threads do
 * not mix. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/guard.h"
#include "os/os.h"
#include "os/os_atomic.h"

static uint32_t current_level = VIPL_LOG_ERROR; /* atomic, relaxed: a setting */
static uint32_t level_is_default = 1;           /* atomic, relaxed: VIPL_LOG is not set */

static const char *const level_names[] = {"off", "error", "reason", "info", "debug"};

/* The program's handler, which changes while no other thread is in the library. */
static struct {
    uint32_t level; /* VIPL_LOG_OFF: none */
    VIPX_LOG_HANDLER handler;
    void *context;
} program;

void vipl_log_set_level(enum vipl_log_level level, bool by_default)
{
    vipl_store_relaxed(&current_level, (uint32_t)level);
    vipl_store_relaxed(&level_is_default, by_default);
    vipl_error_output_begin(!by_default);
}

void vipl_log_set_handler(enum vipl_log_level level, VIPX_LOG_HANDLER handler, void *context)
{
    program.level = handler == NULL ? VIPL_LOG_OFF : (uint32_t)level;
    program.handler = handler;
    program.context = context;
}

/* The thread may be one of the library's, which is in no call: it may not make one from the handler
 * either. */
static void call_log_handler(enum vipl_log_level level, const char *text)
{
    uint32_t before = vipl_guard.call_state;
    vipl_guard.call_state = before == VIPL_OUTSIDE ? VIPL_INSIDE : before;
    vipl_signal_fence();
    program.handler(program.context, (VIPX_LOG_LEVEL)level, text);
    vipl_signal_fence();
    vipl_guard.call_state = before;
}

void vipl_log(enum vipl_log_level level, const char *format, ...)
{
    char line[512];
    bool elsewhere = program.level != VIPL_LOG_OFF && vipl_load_relaxed(&level_is_default) != 0;
    bool printed = !elsewhere && (uint32_t)level <= vipl_load_relaxed(&current_level);
    bool told = (uint32_t)level <= program.level;
    if (!printed && !told) {
        return;
    }
    int n = snprintf(line, sizeof(line), "vipl[%d] %s: ", vipl_pid(), level_names[level]);
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, args);
    va_end(args);
    if (told) {
        call_log_handler(level, line + n);
    }
    if (printed) {
        strcat(line, "\n"); /* vsnprintf left room for it */
        vipl_print_error(line, strlen(line));
    }
}

const char *vipl_log_code(VIP_RETURN code)
{
    static const char *const names[] = {"VIP_SUCCESS",
                                        "VIP_NOT_DONE",
                                        "VIP_INVALID_PARAMETER",
                                        "VIP_ERROR_RESOURCE",
                                        "VIP_TIMEOUT",
                                        "VIP_REJECT",
                                        "VIP_INVALID_RELIABILITY_LEVEL",
                                        "VIP_INVALID_MTU",
                                        "VIP_INVALID_QOS",
                                        "VIP_INVALID_PTAG",
                                        "VIP_INVALID_RDMAREAD",
                                        "VIP_DESCRIPTOR_ERROR",
                                        "VIP_INVALID_STATE",
                                        "VIP_ERROR_NAMESERVICE",
                                        "VIP_NO_MATCH",
                                        "VIP_NOT_REACHABLE",
                                        "VIP_ERROR_NOT_SUPPORTED",
                                        "VIP_INTERRUPTED"};
    size_t number = (size_t)(unsigned)code;
    return number < sizeof(names) / sizeof(names[0]) ? names[number] : "VIP_RETURN ?";
}

const char *vipl_log_explain(VIP_RETURN code)
{
    static const char *const sentences[] = {
        [VIP_SUCCESS] = "the call has done what it was asked for",
        [VIP_NOT_DONE] = "nothing is complete yet; the call may be repeated",
        [VIP_INVALID_PARAMETER] = "an argument is not allowed, or a handle is not a live one of this process",
        [VIP_ERROR_RESOURCE] = "memory, a device, descriptors, rights or a limit do not suffice for the call",
        [VIP_TIMEOUT] = "the time that the call was given is over, and what it waited for has not come",
        [VIP_REJECT] = "the program at the other end refused the connection",
        [VIP_INVALID_RELIABILITY_LEVEL] =
            "the reliability level is not supported, or the two ends have different ones",
        [VIP_INVALID_MTU] =
            "MaxTransferSize is beyond the device's limit, or the two ends have different ones",
        [VIP_INVALID_QOS] = "a quality of service is not supported, or the two ends have different ones",
        [VIP_INVALID_PTAG] = "the protection tag is not a live one of this NIC handle",
        [VIP_INVALID_RDMAREAD] = "RDMA Reads are not supported at this reliability level",
        [VIP_DESCRIPTOR_ERROR] = "the descriptor is complete with an error: its Status says which",
        [VIP_INVALID_STATE] = "the VI is not in a state in which the call is allowed",
        [VIP_ERROR_NAMESERVICE] = "the name service does not know the host, or was not initialised",
        [VIP_NO_MATCH] = "the host was reached, and no program there waits for this name",
        [VIP_NOT_REACHABLE] = "the host was not reached: the address is not one of this device's network",
        [VIP_ERROR_NOT_SUPPORTED] =
            "this device or build does not have the function, or it is not allowed here",
        [VIP_INTERRUPTED] =
            "a signal handler ran while the call slept; nothing was consumed, and it may be repeated",
    };
    size_t number = (size_t)(unsigned)code;
    return number < sizeof(sentences) / sizeof(sentences[0]) ? sentences[number]
                                                             : "this is no return code of VIPL";
}

/* An async-signal-safe function logs only the number: the C library may read the text of an error
 * from its catalogues, under a lock. */
void vipl_log_os(enum vipl_log_level level, const char *what, int error)
{
    char text[128];
    if (vipl_guard_is_safe_call()) {
        vipl_log(level, "%s: error %d", what, error);
        return;
    }
    vipl_log(level, "%s: %s (%d)", what, vipl_os_error(error, text, sizeof(text)), error);
}
