/* SPDX-License-Identifier: MIT */
/* The log: one line per event, on standard error, up to the level that
 * VIPL_LOG=error|reason|info|debug sets. Without the setting only errors that no function can
 * return are written. The data path does not log. */
#ifndef VIPL_BASE_LOG_H
#define VIPL_BASE_LOG_H

#include <stdbool.h>

#include "os/os_compiler.h"
#include "vipl/posix.h"

/* The numbers are those of VIPX_LOG_LEVEL. REASON: why a function of the API fails, logged where
 * the reason is known. */
enum vipl_log_level { VIPL_LOG_OFF, VIPL_LOG_ERROR, VIPL_LOG_REASON, VIPL_LOG_INFO, VIPL_LOG_DEBUG };

/* Sets the level of standard error. `by_default`: VIPL_LOG is not set. Then nothing is written to
 * standard error if the program has a log handler, or if descriptor 2 is a file of the program
 * (vipl_error_output_is_open()). */
void vipl_log_set_level(enum vipl_log_level level, bool by_default);
/* Sets the program's log handler, which gets the lines up to `level`. No other thread is in the
 * library. */
void vipl_log_set_handler(enum vipl_log_level level, VIPX_LOG_HANDLER handler, void *context);

VIPL_FORMAT(2, 3)
void vipl_log(enum vipl_log_level level, const char *format, ...);

/* Returns the name of a code, for example "VIP_TIMEOUT". */
const char *vipl_log_code(VIP_RETURN code);

/* Returns a sentence that explains a code. */
const char *vipl_log_explain(VIP_RETURN code);

/* Logs that `what` failed with the system error `error`, with the system's text for it. */
void vipl_log_os(enum vipl_log_level level, const char *what, int error);

#endif
