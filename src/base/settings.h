/* SPDX-License-Identifier: MIT */
/* Every setting of the library: what it may be, and what it is where nothing is said. docs/use/settings.md says what each is for. */
#ifndef VIPL_BASE_SETTINGS_H
#define VIPL_BASE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vipl_setting_kind {
    VIPL_SETTING_TEXT,    /* who uses it says what is wrong with it */
    VIPL_SETTING_PATH,    /* likewise; of a file, program or socket */
    VIPL_SETTING_DEVICE,  /* likewise; some devices are named by a path */
    VIPL_SETTING_ALIASES, /* "name=device,..." */
    VIPL_SETTING_NUMBER,  /* from `min` to `max` */
    VIPL_SETTING_RANGE,   /* "first-last", within these */
    VIPL_SETTING_WORD,    /* one of `words` */
    VIPL_SETTING_WORDS    /* any of them, with commas between them */
};

struct vipl_setting {
    const char *name;
    enum vipl_setting_kind kind;
    bool environment_only; /* it is not looked up in the file */
    const char *words;     /* with blanks between them; the first one is the default of a WORD */
    uint32_t min;
    uint32_t max;
    uint32_t default_value; /* a NUMBER's default, and a RANGE's first */
    uint32_t last;          /* a RANGE's */
};

/* NULL: there is no setting of that name. */
const struct vipl_setting *vipl_setting_find(const char *name);
/* The setting whose name is most like this one; NULL: none is like it. */
const struct vipl_setting *vipl_setting_like(const char *name);

/* What a value means; false: it is not allowed. */
bool vipl_setting_number(const struct vipl_setting *setting, const char *value, uint32_t *number);
bool vipl_setting_range(const struct vipl_setting *setting, const char *value, uint32_t *first,
                        uint32_t *last);
bool vipl_setting_word(const struct vipl_setting *setting, const char *value, unsigned *which);
bool vipl_setting_lists(const char *value, const char *word); /* of WORDS: whether that one is among them */
/* What names none may come from the environment of a program that has more rights than its user. */
bool vipl_setting_names_no_file(const struct vipl_setting *setting, const char *value);
bool vipl_setting_allows(const struct vipl_setting *setting, const char *value);
/* What is allowed, as words of a sentence: "a number from 0 to 5". */
void vipl_setting_describe(const struct vipl_setting *setting, char *text, size_t size);

#endif
