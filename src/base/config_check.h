/* SPDX-License-Identifier: MIT */
/*
 * What is wrong with the settings, on standard error: names that are none, values that are not allowed, lines of the file that say
 * nothing, a file that is not there. Each is named once in a process, with what is allowed; the library goes on without it.
 */
#ifndef VIPL_BASE_CONFIG_CHECK_H
#define VIPL_BASE_CONFIG_CHECK_H

/* A device is about to be opened: sets the log's level, and says what is wrong. */
void vipl_config_begin(void);
/* The program that this process works for has said it all. */
void vipl_config_is_checked(void);

#endif
