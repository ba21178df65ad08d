/* SPDX-License-Identifier: MIT */
/* Labels of recordings; see label.h. */
#include "dm/nvme/label.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char first_line[] = "VIPL recording 1\n";

/* Takes a line of this name and a number, and goes on behind it. */
static bool take_line(const char **at, const char *name, uint64_t *number)
{
    size_t length = strlen(name);
    const char *digit = *at + length;
    uint64_t value = 0;

    if (strncmp(*at, name, length) != 0 || *digit < '0' || *digit > '9') {
        return false;
    }
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        uint64_t next = (uint64_t)(*digit - '0');
        if (value > (UINT64_MAX - next) / 10) {
            return false;
        }
        value = value * 10 + next;
    }
    *at = digit + 1;
    *number = value;
    return *digit == '\n';
}

bool dm_label_read(const uint8_t from[DM_LABEL_BYTES], struct dm_label *label)
{
    char text[160];
    const char *at = text + sizeof(first_line) - 1;

    memcpy(text, from, sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    return strncmp(text, first_line, sizeof(first_line) - 1) == 0 &&
           take_line(&at, "bytes ", &label->bytes) && take_line(&at, "written ", &label->written);
}

void dm_label_write(const struct dm_label *label, uint8_t to[DM_LABEL_BYTES])
{
    memset(to, 0, DM_LABEL_BYTES);
    snprintf((char *)to, DM_LABEL_BYTES, "%sbytes %" PRIu64 "\nwritten %" PRIu64 "\n", first_line,
             label->bytes, label->written);
}
