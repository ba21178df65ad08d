/* SPDX-License-Identifier: MIT */
/* Reports errors in the settings. */
#include "base/config_check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/settings.h"
#include "os/os.h"
#include "os/os_atomic.h"
#include "os/os_compiler.h"

enum { LINE = 256, MAX_REPORTED = 64 };

static uint32_t reported[MAX_REPORTED]; /* atomic: hashes of reported texts; 0: a free entry */
static uint32_t all_reported;           /* atomic */

void vipl_config_is_checked(void)
{
    vipl_config_end();
    vipl_store_relaxed(&all_reported, 1);
}

/* Returns true if the text has not been reported yet. When `reported` is full, each text counts as
 * new. */
static bool is_new(const char *text)
{
    uint32_t hash = (uint32_t)vipl_hash(VIPL_HASH_OF_NOTHING, text, strlen(text)) | 1;
    for (unsigned i = 0; i < MAX_REPORTED; i++) {
        if (vipl_load_relaxed(&reported[i]) == 0 && vipl_compare_exchange(&reported[i], 0, hash)) {
            return true;
        }
        if (vipl_load_relaxed(&reported[i]) == hash) {
            return false;
        }
    }
    return true;
}

VIPL_FORMAT(1, 2) static void report_once(const char *format, ...)
{
    char text[LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (is_new(text)) {
        vipl_log(VIPL_LOG_ERROR, "%s", text);
    }
}

/* Reports a name that is no setting. `where` goes in front of the text. */
static void check_name(const char *where, const char *name)
{
    const struct vipl_setting *like = vipl_setting_like(name);
    if (like != NULL) {
        report_once("%s%s is no setting: is %s meant?", where, name, like->name);
    } else {
        report_once("%s%s is no setting: docs/use/settings.md has them all", where, name);
    }
}

static void check_value(const char *where, const struct vipl_setting *setting, const char *value)
{
    char allowed[LINE / 2];
    if (!vipl_setting_allows(setting, value)) {
        vipl_setting_describe(setting, allowed, sizeof(allowed));
        report_once("%s%s=%s is not %s: the default is used", where, setting->name, value, allowed);
    }
}

/* --- the environment --- */

static bool has_prefix(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* "NAME=VALUE" */
static void check_variable(const char *variable)
{
    char name[LINE / 4];
    size_t length = strcspn(variable, "=");
    bool ours = has_prefix(variable, "VIPL_") && !has_prefix(variable, "VIPL_TEST_") &&
                !has_prefix(variable, "VIPL_STRESS_");
    if (!ours || length >= sizeof(name) || variable[length] == '\0') {
        return;
    }
    memcpy(name, variable, length);
    name[length] = '\0';
    const struct vipl_setting *setting = vipl_setting_find(name);
    if (setting == NULL) {
        check_name("", name);
    } else if (vipl_config_environment(name) == NULL) {
        report_once(
            "%s names a file, program or socket, and this program has more rights than its user: it is "
            "ignored",
            name);
    } else {
        check_value("", setting, variable + length + 1);
    }
}

/* --- the file --- */

static void check_line(const char *path, unsigned number, char *line)
{
    char where[LINE / 2];
    char *name;
    char *value;
    snprintf(where, sizeof(where), "%s:%u: ", path, number);
    switch (vipl_config_split(line, &name, &value)) {
    case VIPL_CONFIG_LINE_EMPTY:
        return;
    case VIPL_CONFIG_LINE_BAD:
        report_once("%sthis is not NAME = value", where);
        return;
    case VIPL_CONFIG_LINE_SETTING:
        break;
    }
    const struct vipl_setting *setting = vipl_setting_find(name);
    if (setting == NULL) {
        check_name(where, name);
    } else if (setting->environment_only) {
        report_once("%s%s is read from the environment only", where, name);
    } else {
        check_value(where, setting, value);
    }
}

static void check_file(void)
{
    const char *path = vipl_config_path();
    char reason[LINE / 2];
    char *file;
    char *line;
    int error = vipl_config_read(&file);
    if (error == 0) {
        char *rest = file;
        for (unsigned number = 1; (line = vipl_config_next_line(&rest)) != NULL; number++) {
            check_line(path, number, line);
        }
        vipl_free(file);
    } else if (vipl_config_environment("VIPL_CONFIG") != NULL || (error != ENOENT && error != EACCES)) {
        report_once("VIPL_CONFIG=%s cannot be read: %s", path,
                    error == EINVAL ? "it is not a regular file"
                                    : vipl_os_error(error, reason, sizeof(reason)));
    }
}

static void check_all(void)
{
    const char *variable;
    for (unsigned i = 0; (variable = vipl_environment_at(i)) != NULL; i++) {
        check_variable(variable);
    }
    check_file();
}

void vipl_config_begin(void)
{
    /* In the order of the words of VIPL_LOG. */
    static const enum vipl_log_level levels[] = {VIPL_LOG_ERROR, VIPL_LOG_REASON, VIPL_LOG_INFO,
                                                 VIPL_LOG_DEBUG, VIPL_LOG_OFF};
    char text[8];
    vipl_config_load();
    bool asked = vipl_config_text("VIPL_LOG", text, sizeof(text)) && text[0] != '\0';
    vipl_log_set_level(levels[vipl_config_word("VIPL_LOG")], !asked);
    if (vipl_load_relaxed(&all_reported) == 0) {
        check_all();
    }
}
