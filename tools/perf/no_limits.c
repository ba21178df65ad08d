/* SPDX-License-Identifier: MIT */
/* Where there is no second process for limits.c, nothing is measured without VIPL. */
#include "perf.h"

#include <math.h>

#include "tool_text.h"

struct perf_limits *perf_limits_start(int cpu, uint32_t largest, unsigned kinds)
{
    (void)cpu;
    (void)largest;
    (void)kinds;
    tool_complain("this system has no fork(): the machine is not measured without VIPL");
    return NULL;
}

void perf_limits_stop(struct perf_limits *limits)
{
    (void)limits;
}

double perf_limits_measure(struct perf_limits *limits, enum perf_limit which, const struct perf_run *run,
                           uint64_t duration_ns)
{
    (void)limits;
    (void)which;
    (void)run;
    (void)duration_ns;
    return NAN;
}
