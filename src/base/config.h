/* SPDX-License-Identifier: MIT */
/*
 * Settings: the environment first, then a file of `NAME = value` lines (the file that VIPL_CONFIG
 * names, or /etc/vipl.conf; '#' starts a comment). Settings are read when a NIC handle is opened. A
 * value that settings.h does not allow counts as not set; config_check.h reports it.
 */
#ifndef VIPL_BASE_CONFIG_H
#define VIPL_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VIPL_CONFIG_FILE_BYTES = 1 << 16 };

/* Copies the value of the setting `name` to text[size], cut to fit. False: the setting is not set,
 * and *text is "". */
bool vipl_config_text(const char *name, char *text, size_t size);
/* Return the value of a setting of the kind (settings.h), or its default. */
uint32_t vipl_config_number(const char *name);
void vipl_config_range(const char *name, uint32_t *first, uint32_t *last);
unsigned vipl_config_word(const char *name); /* the index of the word */
/* The words of VIPL_PROGRESS. */
enum vipl_progress_mode { VIPL_PROGRESS_AUTO, VIPL_PROGRESS_INLINE, VIPL_PROGRESS_THREAD };
/* Returns true if the comma-separated list `name` has the word `word`. */
bool vipl_config_has_word(const char *name, const char *word);

/* Returns the value of an environment variable; NULL: the variable is not set. In a program with
 * more rights than its user, NULL also stands for a variable that names a file, program or
 * socket. */
const char *vipl_config_environment(const char *name);

/* --- the file --- */

/* Reads the file for an opening of this thread: until vipl_config_end() the thread's settings come
 * from this one copy. vipl_config_begin() (config_check.h) calls it. */
void vipl_config_load(void);
/* Forgets the copy: each later look-up reads the file again. */
void vipl_config_end(void);
/* Returns the text of the file, which the caller may change and frees with vipl_free(). 0, or an
 * error as of vipl_read_text(). */
int vipl_config_read(char **text);
const char *vipl_config_path(void);
/* Returns the next line of a text, and ends the line with a NUL; NULL: there is none. */
char *vipl_config_next_line(char **text);
enum vipl_config_line { VIPL_CONFIG_LINE_SETTING, VIPL_CONFIG_LINE_EMPTY, VIPL_CONFIG_LINE_BAD };
/* Splits a line into name and value, without blanks around them. Changes the line. */
enum vipl_config_line vipl_config_split(char *line, char **name, char **value);

#endif
