/* SPDX-License-Identifier: MIT */
/* The log: each line is built first and written by one call, so that lines of several threads do not mix. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/guard.h"
#include "os/os.h"
#include "os/os_atomic.h"

static uint32_t current_level = VIPL_LOG_ERROR; /* read and written relaxed: a setting */

static const char *const level_names[] = {"off", "error", "info", "debug"};

void vipl_log_set_level(enum vipl_log_level level)
{
    vipl_store_relaxed(&current_level, (uint32_t)level);
}

void vipl_log(enum vipl_log_level level, const char *format, ...)
{
    char line[512];
    if ((uint32_t)level > vipl_load_relaxed(&current_level)) {
        return;
    }
    int n = snprintf(line, sizeof(line), "vipl[%d] %s: ", vipl_pid(), level_names[level]);
    va_list args;
    va_start(args, format);
    vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, args);
    va_end(args);
    strcat(line, "\n"); /* vsnprintf left room for it */
    vipl_print_error(line, strlen(line));
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

/* The C library may read the text of an error from its catalogues, under a lock. */
void vipl_log_os(const char *what, int error)
{
    char text[128];
    if (vipl_guard_is_safe_call()) {
        vipl_log(VIPL_LOG_ERROR, "%s: error %d", what, error);
        return;
    }
    vipl_log(VIPL_LOG_ERROR, "%s: %s (%d)", what, vipl_os_error(error, text, sizeof(text)), error);
}
