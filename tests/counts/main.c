/* SPDX-License-Identifier: MIT */
/* The command line of the program that is counted; counts.py writes it. */
#include "counts.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool_text.h"

static const char *const op_names[] = {
    [COUNTS_SEND] = "send",
    [COUNTS_WRITE] = "write",
    [COUNTS_READ] = "read",
    [COUNTS_POLL] = "poll",
    [COUNTS_PING_PONG] = "ping-pong",
    [COUNTS_POST] = "post",
    [COUNTS_CONNECT] = "connect",
    [COUNTS_PLAIN_READ] = "plain-read",
    [COUNTS_PLAIN_WRITE] = "plain-write",
    [COUNTS_PLAIN_POLL] = "plain-poll",
    [COUNTS_PLAIN_EPOLL] = "plain-epoll",
    [COUNTS_WAKE] = "wake",
};

static const struct option options[] = {
    {"device", required_argument, NULL, 'd'},
    {"op", required_argument, NULL, 'o'},
    {"size", required_argument, NULL, 's'},
    {"in-flight", required_argument, NULL, 'f'},
    {"messages", required_argument, NULL, 'm'},
    {"parts", required_argument, NULL, 'p'},
    {"line", required_argument, NULL, 'l'},
    {"name", required_argument, NULL, 'n'},
    {"second", no_argument, NULL, '2'},
    {"through-cq", no_argument, NULL, 'c'},
    {"wait", no_argument, NULL, 'w'},
    {"shared-memory", no_argument, NULL, 'M'},
    {"shareable", no_argument, NULL, 'S'},
    {"waits-itself", no_argument, NULL, 'i'},
    {NULL, 0, NULL, 0},
};

static bool take_op(struct counts_plan *plan, const char *text)
{
    for (size_t i = 0; i < sizeof(op_names) / sizeof(op_names[0]); i++) {
        if (strcmp(text, op_names[i]) == 0) {
            plan->op = (enum counts_op)i;
            return true;
        }
    }
    return false;
}

static bool take(struct counts_plan *plan, int option)
{
    uint64_t number = 0;

    if (strchr("sfmpl", option) != NULL && !tool_parse_number(optarg, 0, 16777216, &number)) {
        return false;
    }
    switch (option) {
    case 'd':
        plan->device = optarg;
        return true;
    case 'o':
        return take_op(plan, optarg);
    case 's':
        plan->size = (uint32_t)number;
        return number > 0;
    case 'f':
        plan->in_flight = (uint32_t)number;
        return number > 0 && number <= COUNTS_MAX_IN_FLIGHT;
    case 'm':
        plan->messages = (uint32_t)number;
        return true;
    case 'p':
        plan->parts = (uint32_t)number;
        return true;
    case 'l':
        plan->line = (int)number;
        return true;
    case 'n':
        snprintf(plan->discriminator, sizeof(plan->discriminator), "%s", optarg);
        return true;
    case '2':
        return plan->second = true;
    case 'c':
        return plan->through_cq = true;
    case 'w':
        return plan->waits = true;
    case 'M':
        return plan->shared_memory = true;
    case 'S':
        return plan->shareable = true;
    case 'i':
        return plan->waits_itself = true;
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    struct counts_plan plan = {
        .device = "loopback", .size = 8, .in_flight = 1, .messages = 16, .parts = 1, .line = -1};
    int option;
    bool right;

    tool_name = "vipl-counts";
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (!take(&plan, option)) {
            return TOOL_USAGE;
        }
    }
    if (optind != argc) {
        return TOOL_USAGE;
    }
    counts_choose_chance(plan.second ? 2 : 1);
    if (plan.op >= COUNTS_PLAIN_READ) {
        right = counts_run_plain(&plan);
    } else if (plan.line < 0) {
        right = counts_run_alone(&plan);
    } else {
        right = plan.second ? counts_run_second(&plan) : counts_run_first(&plan);
    }
    fflush(NULL);
    _exit(right ? TOOL_OK
                : TOOL_FAILED); /* what the end costs is not counted, and takes long under valgrind */
}
