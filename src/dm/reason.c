/* SPDX-License-Identifier: MIT */
/* Texts for the user; see reason.h. */
#include "dm/reason.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int dm_fail(struct vipl_dm_reason *reason, int error, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(reason->text, sizeof(reason->text), format, args);
    va_end(args);
    return error;
}

const char *dm_argument(const char *name, const char *kind)
{
    size_t length = strlen(kind);

    if (strncmp(name, kind, length) != 0) {
        return NULL;
    }
    if (name[length] == ':') {
        return name + length + 1;
    }
    return name[length] == '\0' ? name + length : NULL;
}

int dm_no_such_kind(struct vipl_dm_reason *reason, const char *part, const char *name,
                    const char *const *absent)
{
    for (; absent != NULL && *absent != NULL; absent++) {
        if (dm_argument(name, *absent) != NULL) {
            return dm_fail(reason, ENODEV, "%s \"%s\": this build has no kind %s", part, name, *absent);
        }
    }
    return dm_fail(reason, EINVAL, "%s \"%s\" is of no kind that there is", part, name);
}
