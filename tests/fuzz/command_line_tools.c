/* SPDX-License-Identifier: MIT */
/* A parser lets through what needs no second look, or ends with "help was printed" or "wrong
 * usage". */
#include "command_line.h"

#include <getopt.h>
#include <string.h>

#include "info.h"
#include "perf/perf.h"
#include "ping.h"
#include "tool_text.h"

static bool is_code(int code)
{
    return code == -1 || code == TOOL_OK || code == TOOL_USAGE;
}

static bool is_discriminator(const char *text)
{
    return text != NULL && text[0] != '\0' && strlen(text) <= TOOL_DISCRIMINATOR_BYTES;
}

static bool is_level(VIP_RELIABILITY_LEVEL level)
{
    return strcmp(tool_level_text(level), "unknown") != 0;
}

const char *fuzz_perf_options(int argc, char **argv)
{
    struct perf_options o;
    int code;

    optind = 0; /* getopt begins anew */
    code = perf_parse(argc, argv, &o);
    if (code != -1) {
        return is_code(code) ? NULL : "an unknown exit code of vipl-perf";
    }
    if (o.role == PERF_ROLE_NONE || !is_discriminator(o.discriminator) || !is_level(o.level)) {
        return "a role, name or level that vipl-perf must refuse";
    }
    if (o.min_size > o.max_size || o.max_size > PERF_MAX_SIZE || o.depth < 1 || o.depth > PERF_MAX_DEPTH ||
        o.rounds < 1 || o.rounds > PERF_MAX_ROUNDS || o.timeout_ms < 1 || o.warmup < 1) {
        return "a number that vipl-perf must refuse";
    }
    if (o.tests == 0 || o.tests >> PERF_TESTS != 0 || o.ops == 0 || o.ops >> PERF_OPS != 0) {
        return "tests or operations that there are not";
    }
    return NULL;
}

const char *fuzz_ping_options(int argc, char **argv)
{
    struct ping_options o;
    int code;

    optind = 0;
    code = ping_parse(argc, argv, &o);
    if (code != -1) {
        return is_code(code) ? NULL : "an unknown exit code of vipl-ping";
    }
    if (o.role == ROLE_NONE || !is_discriminator(o.discriminator) || !is_level(o.level)) {
        return "a role, name or level that vipl-ping must refuse";
    }
    return o.size < 1 || o.size > PING_MAX_SIZE || o.count < 1 || o.timeout_ms < 1
               ? "a number that vipl-ping must refuse"
               : NULL;
}

const char *fuzz_info_options(int argc, char **argv)
{
    static struct info_options o;
    int code;

    optind = 0;
    code = info_parse(argc, argv, &o);
    if (code != -1) {
        return is_code(code) ? NULL : "an unknown exit code of vipl-info";
    }
    for (size_t i = 0; i < o.device_count; i++) {
        if (i == INFO_MAX_DEVICES || memchr(o.devices[i], '\0', INFO_NAME_BYTES) == NULL) {
            return "more devices than there is room for, or a name without an end";
        }
    }
    return NULL;
}
