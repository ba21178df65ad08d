/* SPDX-License-Identifier: MIT */
/* The log: one line per event, on standard error, from the level that VIPL_LOG=error|reason|info|debug sets. Without the
 * setting only errors are written that no function can return. Never used on the data path. */
#ifndef VIPL_BASE_LOG_H
#define VIPL_BASE_LOG_H

#include <stdbool.h>

#include "vipl/posix.h"

/* Their numbers are those of VIPX_LOG_LEVEL. REASON: why a function of the API fails, said where that is known. */
enum vipl_log_level { VIPL_LOG_OFF, VIPL_LOG_ERROR, VIPL_LOG_REASON, VIPL_LOG_INFO, VIPL_LOG_DEBUG };

/* What goes to standard error. `by_default`: nobody has asked for it. Then a program that has a handler gets nothing there, and nothing goes to a
 * descriptor 2 that is a file of the program's (vipl_error_output_is_open()). */
void vipl_log_set_level(enum vipl_log_level level, bool by_default);
/* Up to `level`, lines go to the program's function. No other thread is in the library. */
void vipl_log_set_handler(enum vipl_log_level level, VIPX_LOG_HANDLER handler, void *context);

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void vipl_log(enum vipl_log_level level, const char *format, ...);

/* "VIP_TIMEOUT" for example. */
const char *vipl_log_code(VIP_RETURN code);

/* A sentence about it. */
const char *vipl_log_explain(VIP_RETURN code);

/* `what` failed with the system error `error`; the text is the system's. */
void vipl_log_os(enum vipl_log_level level, const char *what, int error);

#endif
