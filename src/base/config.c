/* SPDX-License-Identifier: MIT */
/* Settings. The file is small and is read again for each setting: there is no state to keep up to date. */
#include "base/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "os/os.h"

static char *trim(char *s)
{
    s += strspn(s, " \t");
    size_t n = strlen(s);
    while (n > 0 && strchr(" \t\r\n", s[n - 1]) != NULL) {
        s[--n] = '\0';
    }
    return s;
}

static bool split_line(char *line, char **key, char **value)
{
    line[strcspn(line, "#")] = '\0';
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        return false;
    }
    *equals = '\0';
    *key = trim(line);
    *value = trim(equals + 1);
    return true;
}

static bool from_file(const char *name, char *text, size_t size)
{
    const char *path = vipl_environment("VIPL_CONFIG");
    FILE *file = fopen(path != NULL ? path : "/etc/vipl.conf", "re");
    if (file == NULL) {
        return false;
    }
    char line[1024];
    char *key;
    char *value;
    bool found = false;
    while (!found && fgets(line, sizeof(line), file) != NULL) {
        if (split_line(line, &key, &value) && strcmp(key, name) == 0) {
            snprintf(text, size, "%s", value);
            found = true;
        }
    }
    fclose(file);
    return found;
}

bool vipl_config_text(const char *name, char *text, size_t size)
{
    const char *value = vipl_environment(name);
    text[0] = '\0';
    if (value != NULL) {
        snprintf(text, size, "%s", value);
        return true;
    }
    return from_file(name, text, size);
}

uint32_t vipl_config_number(const char *name, uint32_t otherwise, uint32_t min, uint32_t max)
{
    char text[32];
    if (!vipl_config_text(name, text, sizeof(text))) {
        return otherwise;
    }
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end != '\0' || text[0] == '-' || value < min || value > max) {
        vipl_log(VIPL_LOG_ERROR, "%s=%s is not a number from %u to %u: %u is used", name, text, (unsigned)min,
                 (unsigned)max, (unsigned)otherwise);
        return otherwise;
    }
    return (uint32_t)value;
}

bool vipl_config_has_word(const char *name, const char *word)
{
    char text[256];
    char *save = NULL;
    vipl_config_text(name, text, sizeof(text));
    for (char *w = strtok_r(text, ", ", &save); w != NULL; w = strtok_r(NULL, ", ", &save)) {
        if (strcmp(w, word) == 0) {
            return true;
        }
    }
    return false;
}
