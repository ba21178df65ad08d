/* SPDX-License-Identifier: MIT */
/* Tables as text, or a JSON object per row. */
#include "table.h"

#include <stdio.h>
#include <stdlib.h>

static struct {
    const char *title;
    const char *unit;
    enum table_clock clock;
    bool json;
} table;

static const char *clock_name(void)
{
    return table.clock == TABLE_SIMULATED ? "simulated" : "wall";
}

void table_begin(const char *title, enum table_clock clock, const char *unit, bool json)
{
    table.title = title;
    table.unit = unit;
    table.clock = clock;
    table.json = json;
    if (json) {
        return;
    }
    printf("\n%s (%s; %s time)\n", title, unit, clock_name());
    printf("  %-44s %12s %12s %9s %9s\n", "", "paper", "ours", "p. ratio", "our ratio");
}

static void print_number(double value, int width, const char *none)
{
    if (value < 0) {
        printf(" %*s", width, none);
    } else {
        printf(" %*.4g", width, value);
    }
}

static void print_json(const char *key, double value)
{
    if (value < 0) {
        printf(", \"%s\": null", key);
    } else {
        printf(", \"%s\": %.6g", key, value);
    }
}

void table_row(const char *name, double paper, double ours, const char *base, double paper_ratio,
               double our_ratio)
{
    if (table.json) {
        printf("{\"table\": \"%s\", \"clock\": \"%s\", \"unit\": \"%s\", \"row\": \"%s\"", table.title,
               clock_name(), table.unit, name);
        print_json("paper", paper);
        print_json("ours", ours);
        print_json("paper_ratio", paper_ratio);
        print_json("our_ratio", our_ratio);
        printf("%s%s%s}\n", base != NULL ? ", \"base\": \"" : "", base != NULL ? base : "",
               base != NULL ? "\"" : "");
        return;
    }
    printf("  %-44s", name);
    print_number(paper, 12, "-");
    print_number(ours, 12, "-");
    print_number(paper_ratio, 9, "");
    print_number(our_ratio, 9, "");
    printf("%s%s\n", base != NULL ? "  of " : "", base != NULL ? base : "");
}

void table_note(const char *text)
{
    if (!table.json) {
        printf("  %s\n", text);
    }
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

double table_percentile(double *values, unsigned count, double percent)
{
    qsort(values, count, sizeof(*values), compare);
    unsigned at = (unsigned)(percent / 100 * (count - 1) + 0.5);
    return values[at];
}
