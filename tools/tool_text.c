/* SPDX-License-Identifier: MIT */
/*
 * Words for people and for scripts; see tool_text.h. Numbers are written with integer conversions
 * only: those know no decimal comma.
 */
#include "tool_text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <vipl/version.h>

const char *tool_name = "vipl";

void tool_complain(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "%s: ", tool_name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

const char *tool_status_text(VIP_UINT32 status, char *text, size_t room)
{
    static const char *const names[] = {
        "format error", "protection error", "length error",          "partial error",
        "flushed",      "transport error",  "RDMA protection error", "remote descriptor error",
    };
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if ((status & ((VIP_UINT32)VIP_STATUS_FORMAT_ERROR << i)) != 0 && used < room) {
            used += (size_t)snprintf(text + used, room - used, "%s%s", used > 0 ? ", " : "", names[i]);
        }
    }
    return text;
}

static const struct {
    const char *name;
    VIP_RELIABILITY_LEVEL level;
} levels[] = {
    {"unreliable", VIP_SERVICE_UNRELIABLE},
    {"delivery", VIP_SERVICE_RELIABLE_DELIVERY},
    {"reception", VIP_SERVICE_RELIABLE_RECEPTION},
};

const char *tool_level_text(VIP_RELIABILITY_LEVEL level)
{
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (levels[i].level == level) {
            return levels[i].name;
        }
    }
    return "unknown";
}

bool tool_parse_level(const char *text, VIP_RELIABILITY_LEVEL *level)
{
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (strcmp(levels[i].name, text) == 0) {
            *level = levels[i].level;
            return true;
        }
    }
    return false;
}

static int unit_shift(const char *suffix)
{
    static const char units[] = "KMG";
    const char *found;

    if (suffix[0] == '\0') {
        return 0;
    }
    found = strchr(units, suffix[0] >= 'a' ? suffix[0] - 'a' + 'A' : suffix[0]);
    return found != NULL && suffix[1] == '\0' ? 10 * (int)(found - units + 1) : -1;
}

bool tool_parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    unsigned long long number;
    char *end;
    int shift;

    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    number = strtoull(text, &end, 10);
    shift = unit_shift(end);
    if (errno != 0 || shift < 0 || number > (UINT64_MAX >> shift)) {
        return false;
    }
    number <<= shift;
    if (number < least || number > most) {
        return false;
    }
    *value = number;
    return true;
}

bool tool_parse_seconds(const char *text, uint64_t *nanoseconds)
{
    uint64_t total = 0;
    uint64_t place = UINT64_C(1000000000);
    size_t i = 0;

    for (; text[i] >= '0' && text[i] <= '9' && total < UINT64_C(4000000000000); i++) {
        total = total * 10 + (uint64_t)(text[i] - '0') * UINT64_C(1000000000);
    }
    if (text[i] == '.') {
        for (i++; text[i] >= '0' && text[i] <= '9' && place > 1000; i++) {
            place /= 10;
            total += (uint64_t)(text[i] - '0') * place;
        }
    }
    if (i == 0 || text[i] != '\0' || total == 0 || total > UINT64_C(3600000000000)) {
        return false;
    }
    *nanoseconds = total;
    return true;
}

void tool_json_string(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\') {
            fprintf(to, "\\%c", c);
        } else if (c < 0x20 || c >= 0x7f) {
            fprintf(to, "\\u%04x", c);
        } else {
            fputc(c, to);
        }
    }
    fputc('"', to);
}

const char *tool_number_text(double value, int decimals, char *text, size_t room)
{
    uint64_t scale = 1;
    uint64_t scaled;

    if (!isfinite(value) || fabs(value) > 1e12) {
        snprintf(text, room, "-");
        return text;
    }
    for (int i = 0; i < decimals; i++) {
        scale *= 10;
    }
    scaled = (uint64_t)(fabs(value) * (double)scale + 0.5);
    if (decimals == 0) {
        snprintf(text, room, "%s%llu", value < 0 ? "-" : "", (unsigned long long)scaled);
    } else {
        snprintf(text, room, "%s%llu.%0*llu", value < 0 ? "-" : "", (unsigned long long)(scaled / scale),
                 decimals, (unsigned long long)(scaled % scale));
    }
    return text;
}

void tool_json_number(FILE *to, double value, int decimals)
{
    char text[48];

    tool_number_text(value, decimals, text, sizeof(text));
    fputs(strcmp(text, "-") == 0 ? "null" : text, to);
}

void tool_print_version(void)
{
    printf("%s %s\n", tool_name, VIPL_VERSION_STRING);
}
