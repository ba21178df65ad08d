/* SPDX-License-Identifier: MIT */
/*
 * The tables that compare the papers' figures with ours. Each row is a figure of the paper, ours,
 * the ratio of the paper's figure to that of the row which it is compared with there, and our ratio
 * to the same row. Each table says by which clock it is: the model's simulated time or the wall's,
 * never both.
 */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include <stdbool.h>

enum table_clock { TABLE_WALL, TABLE_SIMULATED };

#define TABLE_NONE (-1.0) /* the paper has no such figure, or there is nothing to compare it with */

/* Column titles and the clock; `unit` is that of both figures. */
void table_begin(const char *title, enum table_clock clock, const char *unit, bool json);
/* One row; `base` is the row's name that both ratios are to, NULL: none. */
void table_row(const char *name, double paper, double ours, const char *base, double paper_ratio,
               double our_ratio);
void table_note(const char *text);

/* Ascending order, for medians and percentiles: sorts and returns the value below which `percent`
 * of them lie. */
double table_percentile(double *values, unsigned count, double percent);

#endif
