/* SPDX-License-Identifier: MIT */
/* Creates an adapter, reports its start to the program that waits for it, and serves until it
 * ends. */
#include "adapter/serve.h"

#include <errno.h>
#include <string.h>

#include "adapter/stats.h"
#include "base/deadline.h"
#include "rnic/start.h"

enum { PATH_MS = 5000 };
static const uint64_t LOOK_NS = 5000000;

/* How long an adapter polls. Not used on one CPU, where polling would keep the driver from
 * running. */
static const uint64_t SPIN_NS = 50000;

void rnic_adapter_defaults(struct rnic_adapter_config *config)
{
    memset(config, 0, sizeof(*config));
    config->card = (struct rnic_card_config){.functions = RNIC_CARD_MAX_FUNCTIONS,
                                             .qps = 65536,
                                             .cqs = 65536,
                                             .stags = 65535,
                                             .pbl_entries = 4 << 20,
                                             .flows = 1024,
                                             .frames = 16384,
                                             .mtu = 9000,
                                             .dram_bytes = 16 << 20,
                                             .sram_bytes = 16 << 10,
                                             .profile = RNIC_PROFILE_NONE};
    config->spin_ns = vipl_cpu_count() > 1 ? SPIN_NS : 0;
    (void)vipl_entropy(&config->card.seed, sizeof(config->card.seed));
}

static void report_start(int lifeline, enum rnic_adapter_start what)
{
    unsigned char byte = (unsigned char)what;
    if (lifeline >= 0) {
        (void)vipl_local_send(lifeline, &byte, 1, NULL, 0);
        vipl_fd_close(lifeline);
    }
}

static void call_runs(void (*runs)(struct rnic_adapter *adapter), struct rnic_adapter *adapter)
{
    if (runs != NULL) {
        runs(adapter);
    }
}

/* Returns true if an adapter answers at the path of its statistics. A connection to the socket
 * itself would take a function. */
static bool is_served(const char *socket)
{
    char path[RNIC_MAX_PATH];
    int fd = -1;
    if (socket == NULL || rnic_stats_path(socket, path) != 0) {
        return false;
    }
    int error = vipl_unix_connect(path, &fd);
    vipl_fd_close(fd);
    return error == 0 || error == EAGAIN; /* many ask */
}

/* Creates the adapter for a program that waits. The process that has the path may be an adapter
 * that does not serve yet, or a killed one that has not ended yet. */
static int create_or_find(const struct rnic_adapter_config *config, struct rnic_adapter **out, char *what,
                          size_t size)
{
    uint64_t end = vipl_deadline(PATH_MS);
    int error = rnic_adapter_create(config, out, what, size);
    while (error == EALREADY && !is_served(config->socket) && vipl_now_ns() < end) {
        vipl_pause(LOOK_NS);
        error = rnic_adapter_create(config, out, what, size);
    }
    return error;
}

/* A program that waits can use another adapter that has the path already. */
int rnic_adapter_serve(const struct rnic_adapter_config *config, int lifeline,
                       void (*runs)(struct rnic_adapter *adapter), char *what, size_t size)
{
    struct rnic_adapter *adapter;
    vipl_fd_raise_limit(); /* each program has some twenty descriptors here */
    int error = lifeline >= 0 ? create_or_find(config, &adapter, what, size)
                              : rnic_adapter_create(config, &adapter, what, size);
    if (lifeline >= 0) {
        vipl_silence(); /* it has nothing more to say there, and outlives the program */
    }
    report_start(lifeline, error == 0 || error == EALREADY ? RNIC_ADAPTER_RUNS : RNIC_ADAPTER_FAILED);
    if (error == 0) {
        call_runs(runs, adapter);
        rnic_adapter_run(adapter);
        call_runs(runs, NULL);
        rnic_adapter_destroy(adapter);
    }
    return error;
}

void rnic_adapter_fork(const char *path, int lifeline)
{
    struct rnic_adapter_config config;
    char what[256];
    rnic_adapter_defaults(&config);
    config.socket = path;
    config.lingers = true;
    (void)rnic_adapter_serve(&config, lifeline, NULL, what, sizeof(what));
}
