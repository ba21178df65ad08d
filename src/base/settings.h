/* SPDX-License-Identifier: MIT */
/* The settings of the library: allowed values and defaults. docs/use/settings.md explains each
 * setting. */
#ifndef VIPL_BASE_SETTINGS_H
#define VIPL_BASE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vipl_setting_kind {
    VIPL_SETTING_TEXT,    /* checked by the code that uses it, like the next two */
    VIPL_SETTING_PATH,    /* the path of a file, program or socket */
    VIPL_SETTING_DEVICE,  /* a device; some devices are named by a path */
    VIPL_SETTING_ALIASES, /* "name=device,..." */
    VIPL_SETTING_NUMBER,  /* from `min` to `max` */
    VIPL_SETTING_RANGE,   /* "first-last", from `min` to `max` */
    VIPL_SETTING_WORD,    /* one of `words` */
    VIPL_SETTING_WORDS    /* any of `words`, separated by commas */
};

struct vipl_setting {
    const char *name;
    enum vipl_setting_kind kind;
    bool environment_only; /* not looked up in the file */
    const char *words;     /* separated by blanks; the first word is the default of a WORD */
    uint32_t min;
    uint32_t max;
    uint32_t default_value; /* the default of a NUMBER, and the first number of a RANGE */
    uint32_t last;          /* the last number of a RANGE */
};

/* Finds a setting; NULL: no setting has that name. */
const struct vipl_setting *vipl_setting_find(const char *name);
/* Finds the setting with the most similar name; NULL: none is similar. */
const struct vipl_setting *vipl_setting_like(const char *name);

/* Read a value of a setting; false: the value is not allowed. */
bool vipl_setting_number(const struct vipl_setting *setting, const char *value, uint32_t *number);
bool vipl_setting_range(const struct vipl_setting *setting, const char *value, uint32_t *first,
                        uint32_t *last);
bool vipl_setting_word(const struct vipl_setting *setting, const char *value, unsigned *which);
/* Returns true if `word` is in a value of kind WORDS. */
bool vipl_setting_lists(const char *value, const char *word);
/* Returns true if the value names no file. Such a value may come from the environment of a program
 * that has more rights than its user. */
bool vipl_setting_names_no_file(const struct vipl_setting *setting, const char *value);
/* Returns true if the value is allowed. */
bool vipl_setting_allows(const struct vipl_setting *setting, const char *value);
/* Writes what is allowed as part of a sentence, for example "a number from 0 to 5". */
void vipl_setting_describe(const struct vipl_setting *setting, char *text, size_t size);

#endif
