/* SPDX-License-Identifier: MIT */
/*
 * Settings: the environment first, then a file of `NAME = value` lines (VIPL_CONFIG, else
 * /etc/vipl.conf; '#' starts a comment). Read when a NIC handle is opened. Values that settings.h does not allow count as not set;
 * config_check.h names them.
 */
#ifndef VIPL_BASE_CONFIG_H
#define VIPL_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VIPL_CONFIG_FILE_BYTES = 1 << 16 };

/* The value of `name` into text[size], cut to fit. False, and "" there: it is not set. */
bool vipl_config_text(const char *name, char *text, size_t size);
/* Of settings of these kinds (settings.h): the value, or the default. */
uint32_t vipl_config_number(const char *name);
void vipl_config_range(const char *name, uint32_t *first, uint32_t *last);
unsigned vipl_config_word(const char *name); /* which of its words */
enum vipl_progress_mode {
    VIPL_PROGRESS_AUTO,
    VIPL_PROGRESS_INLINE,
    VIPL_PROGRESS_THREAD
}; /* of VIPL_PROGRESS */
/* Whether the comma-separated list `name` has `word`. */
bool vipl_config_has_word(const char *name, const char *word);

/* What the environment says; NULL: nothing, or the name of a file, program or socket, in a program with more rights than its user. */
const char *vipl_config_environment(const char *name);

/* --- the file --- */

const char *vipl_config_path(void);
/* The next line of a text, which is cut there; NULL: there is none. */
char *vipl_config_next_line(char **text);
enum vipl_config_line { VIPL_CONFIG_LINE_SETTING, VIPL_CONFIG_LINE_EMPTY, VIPL_CONFIG_LINE_BAD };
/* Cuts a line into name and value, without blanks around them. */
enum vipl_config_line vipl_config_split(char *line, char **name, char **value);

#endif
