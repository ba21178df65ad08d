/* SPDX-License-Identifier: MIT */
/* Settings. An opening works on one copy of the file, which belongs to its thread: no lock guards
 * the copy, and a forked child cannot find it half written. */
#include "base/config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/settings.h"
#include "os/os.h"

enum { MAX_VALUE = 64 /* bytes of a value that is not a text */ };

/* The file as it was when this thread began to open a device. */
static _Thread_local struct {
    bool is_loaded;
    int error; /* why there is no text; 0: there is */
    char *text;
} opening;

void vipl_config_load(void)
{
    vipl_config_end();
    opening.error = vipl_read_text(vipl_config_path(), VIPL_CONFIG_FILE_BYTES, &opening.text);
    opening.is_loaded = true;
}

void vipl_config_end(void)
{
    vipl_free(opening.text);
    opening.text = NULL;
    opening.is_loaded = false;
}

int vipl_config_read(char **text)
{
    if (!opening.is_loaded) {
        return vipl_read_text(vipl_config_path(), VIPL_CONFIG_FILE_BYTES, text);
    }
    if (opening.error != 0) {
        return opening.error;
    }
    size_t bytes = strlen(opening.text) + 1;
    *text = vipl_alloc(bytes);
    if (*text == NULL) {
        return ENOMEM;
    }
    memcpy(*text, opening.text, bytes);
    return 0;
}

static char *trim(char *s)
{
    s += strspn(s, " \t");
    size_t n = strlen(s);
    while (n > 0 && strchr(" \t\r\n", s[n - 1]) != NULL) {
        s[--n] = '\0';
    }
    return s;
}

enum vipl_config_line vipl_config_split(char *line, char **name, char **value)
{
    line[strcspn(line, "#")] = '\0';
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        return *trim(line) == '\0' ? VIPL_CONFIG_LINE_EMPTY : VIPL_CONFIG_LINE_BAD;
    }
    *equals = '\0';
    *name = trim(line);
    *value = trim(equals + 1);
    return **name == '\0' ? VIPL_CONFIG_LINE_BAD : VIPL_CONFIG_LINE_SETTING;
}

char *vipl_config_next_line(char **text)
{
    char *line = *text;
    if (*line == '\0') {
        return NULL;
    }
    char *end = line + strcspn(line, "\n");
    *text = *end == '\0' ? end : end + 1;
    *end = '\0';
    return line;
}

const char *vipl_config_environment(const char *name)
{
    const char *value = vipl_environment(name);
    const struct vipl_setting *setting = value == NULL ? NULL : vipl_setting_find(name);
    bool trusted = setting == NULL || !vipl_has_more_rights() || vipl_setting_names_no_file(setting, value);
    return trusted ? value : NULL;
}

const char *vipl_config_path(void)
{
    const char *path = vipl_config_environment("VIPL_CONFIG");
    return path != NULL ? path : "/etc/vipl.conf";
}

static bool from_file(const char *name, char *text, size_t size)
{
    char *file;
    char *line;
    char *each;
    char *value;
    bool found = false;
    if (vipl_config_read(&file) != 0) {
        return false;
    }
    for (char *rest = file; !found && (line = vipl_config_next_line(&rest)) != NULL;) {
        if (vipl_config_split(line, &each, &value) == VIPL_CONFIG_LINE_SETTING && strcmp(each, name) == 0) {
            snprintf(text, size, "%s", value);
            found = true;
        }
    }
    vipl_free(file);
    return found;
}

bool vipl_config_text(const char *name, char *text, size_t size)
{
    const char *value = vipl_config_environment(name);
    text[0] = '\0';
    if (value != NULL) {
        snprintf(text, size, "%s", value);
        return true;
    }
    return from_file(name, text, size);
}

/* Finds a setting and its value, which is cut to fit. False: the setting is not set. */
static bool value_of(const char *name, const struct vipl_setting **setting, char value[MAX_VALUE])
{
    *setting = vipl_setting_find(name);
    assert(*setting != NULL);
    return vipl_config_text(name, value, MAX_VALUE);
}

uint32_t vipl_config_number(const char *name)
{
    char value[MAX_VALUE];
    const struct vipl_setting *setting;
    uint32_t number;
    bool is_set = value_of(name, &setting, value);
    return is_set && vipl_setting_number(setting, value, &number) ? number : setting->default_value;
}

void vipl_config_range(const char *name, uint32_t *first, uint32_t *last)
{
    char value[MAX_VALUE];
    const struct vipl_setting *setting;
    bool is_set = value_of(name, &setting, value);
    if (!is_set || !vipl_setting_range(setting, value, first, last)) {
        *first = setting->default_value;
        *last = setting->last;
    }
}

unsigned vipl_config_word(const char *name)
{
    char value[MAX_VALUE];
    const struct vipl_setting *setting;
    unsigned which;
    bool is_set = value_of(name, &setting, value);
    return is_set && vipl_setting_word(setting, value, &which) ? which : 0;
}

bool vipl_config_has_word(const char *name, const char *word)
{
    char text[256];
    return vipl_config_text(name, text, sizeof(text)) && vipl_setting_lists(text, word);
}
