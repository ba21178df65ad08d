/* SPDX-License-Identifier: MIT */
/*
 * Connects to the adapter of this user, and starts one if none runs. The path of its socket makes
 * the adapter unique: if two are started at once, the one that gets the path serves both programs.
 * An adapter that is about to end, because it is unused, may close a new connection; the caller
 * then starts an adapter again.
 */
#include "backends/rnic/pci/start.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backends/rnic/pci/pci.h"
#include "base/deadline.h"
#include "base/log.h"
#include "os/os.h"
#include "rnic/start.h"
#include "start/launch.h"
#include "start/socket_path.h"

enum { TEXT = 12, ATTEMPTS = 5, FULL_MS = 5 /* until another look whether there is a place */ };

/* --- starting it --- */

struct beginning {
    const char *path;
    int lifeline[2];
};

static int run_program(struct beginning *b, unsigned char *said)
{
    char lifeline[TEXT];
    const char *program = vipl_launch_path("VIPL_RNICD", VIPL_RNICD_PROGRAM);
    snprintf(lifeline, sizeof(lifeline), "%d", b->lifeline[1]);
    const char *const arguments[] = {program, "--socket", b->path, "--linger", "--lifeline", lifeline, NULL};
    return program[0] == '\0' ? ENOENT
                              : vipl_launch_program((char *const *)(uintptr_t)arguments, &b->lifeline[1], 1,
                                                    b->lifeline, said);
}

static void run_forked(void *arg)
{
    const struct beginning *b = arg;
    rnic_adapter_in_fork(b->path, b->lifeline[1]);
}

static int run_fork(struct beginning *b, unsigned char *said)
{
    int const keep[2] = {b->lifeline[1], -1};
    if (rnic_adapter_in_fork == NULL) {
        vipl_log(VIPL_LOG_REASON, "rnic: no adapter runs, and there is no program to start one (VIPL_RNICD)");
        return ENOTSUP;
    }
    int error = vipl_launch_fork("vipl-rnicd", run_forked, b, keep);
    vipl_fd_close(b->lifeline[1]);
    b->lifeline[1] = -1;
    if (error == 0) {
        *said = vipl_launch_await(b->lifeline[0]);
    }
    return error;
}

/* Starts the program vipl-rnicd if it exists, otherwise a fork of this program. */
static int start_adapter(const char *path)
{
    struct beginning b = {path, {-1, -1}};
    unsigned char said = RNIC_ADAPTER_FAILED;
    int error = vipl_local_pair(b.lifeline);
    error = error == 0 ? run_program(&b, &said) : error;
    if (error == ENOENT || error == EACCES) {
        error = run_fork(&b, &said);
    }
    vipl_fd_close(b.lifeline[0]);
    vipl_fd_close(b.lifeline[1]);
    return error == 0 && said != RNIC_ADAPTER_RUNS ? ECONNREFUSED : error;
}

/* --- connecting --- */

static bool is_unserved(int error)
{
    return error == ENOENT || error == ECONNREFUSED;
}

int rnic_pci_connect_path(const char *path, uint64_t deadline, int *fd)
{
    int error = vipl_unix_connect(path, fd);
    while (error == EAGAIN && vipl_ms_left(deadline) > 0) {
        (void)vipl_poll(NULL, 0, FULL_MS, NULL);
        error = vipl_unix_connect(path, fd);
    }
    return error;
}

static int connect_or_start(uint64_t deadline, int *fd)
{
    char path[VIPL_SOCKET_PATH_BYTES];
    int error = vipl_socket_path("VIPL_RNIC", "rnic.sock", path);
    if (error != 0) {
        vipl_log_os(VIPL_LOG_REASON, "the path of the socket of the card's adapter (VIPL_RNIC)", error);
        return error;
    }
    error = rnic_pci_connect_path(path, deadline, fd);
    for (int i = 0; is_unserved(error) && i < ATTEMPTS; i++) {
        error = start_adapter(path);
        error = error == 0 ? rnic_pci_connect_path(path, deadline, fd) : error;
    }
    return error;
}

void rnic_pci_adapter_say(char *text, size_t size)
{
    char path[VIPL_SOCKET_PATH_BYTES];
    bool known = vipl_socket_path("VIPL_RNIC", "rnic.sock", path) == 0;
    snprintf(text, size, "the emulated RDMA card of the adapter at %s", known ? path : "VIPL_RNIC");
}

int rnic_pci_connect(const char *device, uint64_t deadline, int *fd)
{
    static const char prefix[] = "socket:";
    if (device[0] == '\0') {
        return connect_or_start(deadline, fd);
    }
    return strncmp(device, prefix, sizeof(prefix) - 1) == 0
               ? rnic_pci_connect_path(device + sizeof(prefix) - 1, deadline, fd)
               : ENODEV;
}
