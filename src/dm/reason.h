/* SPDX-License-Identifier: MIT */
/* What is wrong, as a text for the user; and the names of parts, KIND or KIND:ARGUMENT. */
#ifndef VIPL_DM_REASON_H
#define VIPL_DM_REASON_H

#include <stddef.h>

#include "vipl/device_memory.h"

/* Writes the text and returns `error`, an errno value. */
int dm_fail(struct vipl_dm_reason *reason, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The argument of a name of this kind ("" if it has none); NULL: the name is of another kind. */
const char *dm_argument(const char *name, const char *kind);

/* Says why no kind of the list fits: unknown, or of a part that this build does not have. `absent`
 * ends with NULL, or is NULL. Returns ENODEV or EINVAL. */
int dm_no_such_kind(struct vipl_dm_reason *reason, const char *part, const char *name,
                    const char *const *absent);

#endif
