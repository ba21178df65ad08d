/* SPDX-License-Identifier: MIT */
/*
 * vipl-perf: latency, bandwidth and message rate of VIPL, between two processes or in one.
 *
 * This file starts the processes and puts them on their CPUs. Both helpers, the server of --pair
 * and the second process of --limits and --compare, are forked before any device is open.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "perf.h"
#include "tool_os.h"
#include "tool_reason.h"
#include "tool_text.h"
#include "tool_vipl.h"

static void pin(int cpu)
{
    if (!tool_pin(cpu)) {
        tool_complain("CPU %d is not to be had; going on without it", cpu);
    }
}

static int run_client(const struct perf_options *options, struct perf_limits *limits)
{
    struct perf_team team = {0};
    VIP_NIC_HANDLE nic;
    int code = TOOL_FAILED;

    if (!tool_open(options->device, &nic)) {
        return TOOL_FAILED;
    }
    if (perf_team_connect(options, nic, &team)) {
        code = perf_measure(options, &team, NULL, limits);
    }
    perf_team_destroy(&team);
    VipCloseNic(nic);
    return tool_stop ? TOOL_INTERRUPTED : code;
}

static int run_local(const struct perf_options *options, struct perf_limits *limits)
{
    struct perf_local *local = perf_local_create(options);
    int code = TOOL_FAILED;

    if (local != NULL) {
        code = perf_measure(options, NULL, local, limits);
    }
    perf_local_destroy(local);
    return code;
}

static pid_t start_server(struct perf_options *options)
{
    static char discriminator[32];
    pid_t child;

    snprintf(discriminator, sizeof(discriminator), "perf-%ld", (long)getpid());
    options->discriminator = discriminator;
    options->once = true;
    tool_reasons_begin(); /* once for both */
    child = tool_fork();
    if (child == 0) {
        int code;

        pin(options->cpus[1]);
        code = perf_serve(options);
        fflush(NULL);
        _exit(code);
    }
    if (child < 0) {
        tool_complain("fork: %s", strerror(errno));
    }
    return child;
}

/* The server ends by itself when the client has gone; one that no client reached is told to. */
static int end_server(pid_t server, int code)
{
    int server_code;

    if (code != TOOL_OK) {
        tool_end_child(server);
    }
    server_code = tool_wait_child(server, 3000);
    if (code == TOOL_OK && server_code != TOOL_OK) {
        tool_complain("the server process ended with code %d", server_code);
        return TOOL_FAILED;
    }
    return code;
}

static int run_here(struct perf_options *options)
{
    bool pair = options->role == PERF_ROLE_PAIR;
    struct perf_limits *limits = NULL;
    pid_t server = -1;
    int code;

    if (pair) {
        server = start_server(options);
        if (server < 0) {
            return TOOL_FAILED;
        }
    }
    if (options->limits != 0) {
        limits = perf_limits_start(options->cpus[1], (uint32_t)options->max_size, options->limits);
    }
    pin(options->cpus[0]);
    code = pair ? run_client(options, limits) : run_local(options, limits);
    perf_limits_stop(limits);
    return pair ? end_server(server, code) : code;
}

int main(int argc, char **argv)
{
    struct perf_options options;
    int code;

    tool_name = "vipl-perf";
    code = perf_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    tool_mem_is_shared = options.shared_memory;
    tool_catch_stop();
    switch (options.role) {
    case PERF_ROLE_SERVER:
        pin(options.cpus[1]);
        return perf_serve(&options);
    case PERF_ROLE_CLIENT:
        pin(options.cpus[0]);
        return run_client(&options, NULL);
    default:
        return run_here(&options);
    }
}
