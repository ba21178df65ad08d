/* SPDX-License-Identifier: MIT */
/*
 * Reports errors in the settings on standard error: unknown names, values that are not
 * allowed, malformed lines of the file, and a file that cannot be read. Each error is reported once
 * in a process, with what is allowed; the library uses the default.
 */
#ifndef VIPL_BASE_CONFIG_CHECK_H
#define VIPL_BASE_CONFIG_CHECK_H

/* Begins an opening: reads the file (vipl_config_load()), sets the level of the log, and reports
 * errors. The caller ends the opening with vipl_config_end(). */
void vipl_config_begin(void);
/* Reports no errors in this process, and forgets a copy of the file: this is a server, whose
 * program has reported all errors. */
void vipl_config_is_checked(void);

#endif
