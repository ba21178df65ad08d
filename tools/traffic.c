/* SPDX-License-Identifier: MIT */
/* What vipl-gen and vipl-cap have in common; see traffic.h. */
#include "traffic.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <vipl/version.h>

#include "tool_os.h"
#include "tool_text.h"

/* Raised when a member of the JSON objects changes its name or meaning. */
#define SCHEMA 1
#define NS_PER_SECOND 1e9

/* --- the command line ------------------------------------------------------------------------- */

/* 1 for no unit, 0 for an unknown one. */
static uint64_t unit_of(const char *text)
{
    static const char units[] = "KMGT";
    const char *found;
    uint64_t unit = 1;

    if (text[0] == '\0') {
        return 1;
    }
    found = strchr(units, text[0] >= 'a' ? text[0] - 'a' + 'A' : text[0]);
    if (found == NULL || text[1] != '\0') {
        return 0;
    }
    for (const char *u = units; u <= found; u++) {
        unit *= 1000;
    }
    return unit;
}

bool traffic_parse_decimal(const char *text, uint64_t scale, uint64_t most, uint64_t *value)
{
    uint64_t unit = unit_of(text + strspn(text, "0123456789."));
    uint64_t total = 0;
    uint64_t place; /* of the digit behind the point that comes next */

    if (text[0] < '0' || text[0] > '9' || unit == 0 || scale > UINT64_MAX / unit) {
        return false;
    }
    place = scale * unit;
    for (; *text >= '0' && *text <= '9'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');
        if (total > (most - digit) / 10 && total > 0) {
            return false;
        }
        total = total * 10 + digit;
    }
    if (total > most / place) {
        return false;
    }
    total *= place;
    if (*text == '.') {
        for (text++; *text >= '0' && *text <= '9'; text++) {
            uint64_t digit = (uint64_t)(*text - '0');
            if (place % 10 != 0 && digit != 0) {
                return false;
            }
            place /= 10;
            total += digit * place;
        }
    }
    if (total == 0 || total > most || *text == '.') {
        return false;
    }
    *value = total;
    return true;
}

bool traffic_take_option(struct traffic_options *options, int option, const char *value, bool *is_right)
{
    uint64_t number = 0;

    *is_right = true;
    switch (option) {
    case 'S':
        options->path.store = value;
        return true;
    case 'P':
        options->path.port = value;
        return true;
    case 'M':
        options->path.memory = value;
        return true;
    case 'B':
        *is_right = tool_parse_number(value, 1, UINT64_C(1) << 40, &options->path.memory_bytes);
        return true;
    case 'C':
        *is_right = tool_parse_number(value, 1, UINT64_C(1) << 30, &number);
        options->path.chunk_bytes = (uint32_t)number;
        return true;
    case 'A':
        options->path.allow_ram = 1;
        return true;
    case 's':
        *is_right =
            traffic_parse_decimal(value, UINT64_C(1000000000), UINT64_C(86400000000000), &options->stats_ns);
        return true;
    case 'j':
        options->json = true;
        return true;
    case 'e':
        options->explain = true;
        return true;
    case 'o':
        options->plot = value;
        *is_right = value[0] != '\0';
        return true;
    default:
        return false;
    }
}

/* --- counters --------------------------------------------------------------------------------- */

static double per_second(uint64_t count, uint64_t nanoseconds)
{
    return nanoseconds > 0 ? (double)count * NS_PER_SECOND / (double)nanoseconds : 0.0;
}

static void print_member(const char *name, uint64_t value)
{
    printf(", \"%s\": %" PRIu64, name, value);
}

static void print_json(const char *kind, const struct vipl_dm_counters *counters)
{
    printf("{\"schema\": %d, \"tool\": \"%s\", \"version\": \"%d.%d.%d\", \"kind\": \"%s\"", SCHEMA,
           tool_name, VIPL_VERSION_MAJOR, VIPL_VERSION_MINOR, VIPL_VERSION_PATCH, kind);
    print_member("sent", counters->sent);
    print_member("sent_bytes", counters->sent_bytes);
    print_member("received", counters->received);
    print_member("received_bytes", counters->received_bytes);
    print_member("missed_by_port", counters->missed);
    print_member("no_slot", counters->no_slot);
    print_member("store_behind", counters->store_behind);
    print_member("truncated", counters->truncated);
    print_member("refused", counters->refused);
    print_member("lost", counters->lost);
    print_member("late_ns", counters->late_ns);
    print_member("elapsed_ns", counters->elapsed_ns);
}

static void print_rates(uint64_t packets, uint64_t bytes, uint64_t nanoseconds)
{
    printf(", \"packets_per_second\": ");
    tool_json_number(stdout, per_second(packets, nanoseconds), 3);
    printf(", \"bits_per_second\": ");
    tool_json_number(stdout, per_second(8 * bytes, nanoseconds), 0);
}

void traffic_meter_start(struct traffic_meter *meter, const struct traffic_options *options)
{
    memset(meter, 0, sizeof(*meter));
    meter->start = tool_now_ns();
    meter->last = meter->start;
    meter->next = meter->start + options->stats_ns;
    traffic_plot_start(&meter->plot, options->plot, meter->start);
}

void traffic_meter_look(struct traffic_meter *meter, const struct traffic_options *options,
                        const struct vipl_dm_counters *counters)
{
    uint64_t now = tool_now_ns();
    const struct vipl_dm_counters *before = &meter->before;
    uint64_t packets = counters->sent + counters->received - before->sent - before->received;
    uint64_t bytes =
        counters->sent_bytes + counters->received_bytes - before->sent_bytes - before->received_bytes;

    traffic_plot_look(&meter->plot, now, counters, false);
    if (options->stats_ns == 0 || now < meter->next) {
        return;
    }
    if (options->json) {
        print_json("interval", counters);
        print_rates(packets, bytes, now - meter->last);
        printf("}\n");
        fflush(stdout);
    } else {
        fprintf(stderr, "%8.1f s  %12.0f packets/s  %9.1f Mb/s  %" PRIu64 " packets, %" PRIu64 " lost\n",
                (double)(now - meter->start) / NS_PER_SECOND, per_second(packets, now - meter->last),
                per_second(8 * bytes, now - meter->last) / 1e6, counters->sent + counters->received,
                counters->lost);
    }
    meter->before = *counters;
    meter->last = now;
    while (meter->next <= now) {
        meter->next += options->stats_ns;
    }
}

static void print_text(const struct vipl_dm_counters *counters, bool is_sender)
{
    uint64_t packets = is_sender ? counters->sent : counters->received;
    uint64_t bytes = is_sender ? counters->sent_bytes : counters->received_bytes;

    printf("%-16s %" PRIu64 " packets, %" PRIu64 " bytes, in %.6f s\n", is_sender ? "sent" : "received",
           packets, bytes, (double)counters->elapsed_ns / NS_PER_SECOND);
    printf("%-16s %.1f packets/s, %.3f Mb/s\n", "rate", per_second(packets, counters->elapsed_ns),
           per_second(8 * bytes, counters->elapsed_ns) / 1e6);
    if (is_sender) {
        printf("%-16s %" PRIu64 " packets\n", "refused", counters->refused);
        printf("%-16s %" PRIu64 " times\n", "port was full", counters->no_slot);
        printf("%-16s %.6f s\n", "late by at most", (double)counters->late_ns / NS_PER_SECOND);
    } else {
        printf("%-16s %" PRIu64 " packets\n", "missed by port", counters->missed);
        printf("%-16s %" PRIu64 " packets\n", "no slot", counters->no_slot);
    }
    printf("%-16s %" PRIu64 " times\n", "store behind", counters->store_behind);
    printf("%-16s %" PRIu64 " packets\n", "truncated", counters->truncated);
    printf("%-16s %" PRIu64 " packets\n", "lost", counters->lost);
}

/* Without packets there is nothing to draw. */
static bool draw(struct traffic_meter *meter, const struct traffic_options *options,
                 const struct vipl_dm_counters *counters)
{
    char title[512];

    traffic_plot_look(&meter->plot, tool_now_ns(), counters, true);
    snprintf(title, sizeof(title), "%s %s %s", tool_name, options->path.store, options->path.port);
    return traffic_plot_draw(&meter->plot, title);
}

int traffic_report(struct traffic_meter *meter, const struct traffic_options *options,
                   const struct vipl_dm_counters *counters, bool is_sender, bool is_whole)
{
    bool is_good;

    if (options->json) {
        print_json("end", counters);
        print_rates(is_sender ? counters->sent : counters->received,
                    is_sender ? counters->sent_bytes : counters->received_bytes, counters->elapsed_ns);
        printf(", \"whole\": %s}\n", is_whole ? "true" : "false");
    } else {
        print_text(counters, is_sender);
    }
    is_good = fflush(stdout) == 0;
    if (!draw(meter, options, counters) || !is_good) {
        return TOOL_FAILED;
    }
    if (counters->lost > 0) {
        return TRAFFIC_LOST;
    }
    return is_whole ? TOOL_OK : TOOL_INTERRUPTED;
}
