/* SPDX-License-Identifier: MIT */
/* The log: one line per event, on standard error, from the level that VIPL_LOG=error|info|debug sets. Without the
 * setting only errors are written that no function can return. Never used on the data path. */
#ifndef VIPL_BASE_LOG_H
#define VIPL_BASE_LOG_H

#include "vipl/vipl.h"

enum vipl_log_level { VIPL_LOG_OFF, VIPL_LOG_ERROR, VIPL_LOG_INFO, VIPL_LOG_DEBUG };

void vipl_log_set_level(enum vipl_log_level level);

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void vipl_log(enum vipl_log_level level, const char *format, ...);

/* "VIP_TIMEOUT" for example. */
const char *vipl_log_code(VIP_RETURN code);

/* `what` failed with the system error `error`; the text is the system's. */
void vipl_log_os(const char *what, int error);

#endif
