/* SPDX-License-Identifier: MIT */
/* Running an adapter: in the foreground, or in the background for a program that waits until it
 * runs. */
#include "adapter/command.h"

#include <errno.h>
#include <stdio.h>

#include "adapter/options.h"
#include "adapter/serve.h"
#include "adapter/stats.h"
#include "start/socket_path.h"
#include "vipl/version.h"

/* Of this thread and the handler of the signals that end it. */
static struct rnic_adapter *volatile running; /* NULL: not yet, or not any more */
static volatile bool is_asked_to_end;

static void end_running(void)
{
    struct rnic_adapter *adapter = running;
    is_asked_to_end = true;
    if (adapter != NULL) {
        rnic_adapter_end(adapter);
    }
}

static void adapter_runs(struct rnic_adapter *adapter)
{
    running = adapter;
    if (is_asked_to_end && adapter != NULL) { /* meanwhile */
        rnic_adapter_end(adapter);
    }
}

static int run_adapter(const struct rnic_options *options)
{
    char text[128];
    char what[256];
    if (options->lifeline >= 0) {
        int error = vipl_detach("vipl-rnicd", &options->lifeline, 1);
        if (error != 0) {
            return 1;
        }
    }
    vipl_on_end(end_running);
    vipl_writes_fail(); /* a log that cannot be written is no reason to end */
    int error = rnic_adapter_serve(&options->adapter, options->lifeline, adapter_runs, what, sizeof(what));
    if (error != 0 && options->lifeline < 0) {
        fprintf(stderr, "vipl-rnicd: %s: %s\n", what,
                error == EALREADY ? "it is served already" : vipl_os_error(error, text, sizeof(text)));
    }
    return error == 0 ? 0 : 1;
}

static int print_stats(const struct rnic_options *options)
{
    char text[128];
    int error = rnic_stats_print(options->adapter.socket, options->stats_seconds);
    if (error != 0) {
        fprintf(stderr, "vipl-rnicd: %s: %s\n", options->adapter.socket,
                error == ENOENT || error == ECONNREFUSED ? "no adapter serves it"
                                                         : vipl_os_error(error, text, sizeof(text)));
    }
    return error == 0 ? 0 : 1;
}

/* Where programs of this user look for the adapter, if nothing else was said. */
static int choose_socket(struct rnic_options *options, char path[VIPL_SOCKET_PATH_BYTES])
{
    char text[128];
    bool is_served_elsewhere = options->adapter.folder != NULL || options->adapter.bus != NULL;
    if (options->adapter.socket != NULL || (is_served_elsewhere && !options->asks_stats)) {
        return 0;
    }
    int error = vipl_socket_path("VIPL_RNIC", "rnic.sock", path);
    if (error == EINVAL) {
        fprintf(stderr, "vipl-rnicd: VIPL_RNIC: not an absolute path\n");
    } else if (error != 0) {
        fprintf(stderr,
                "vipl-rnicd: the user's folder for sockets, vipl in XDG_RUNTIME_DIR or /tmp/vipl-%u: %s\n",
                (unsigned)vipl_local_user(),
                error == EPERM ? "it is not this user's alone" : vipl_os_error(error, text, sizeof(text)));
    }
    options->adapter.socket = path;
    return error;
}

int rnic_adapter_command(int count, char **arguments)
{
    struct rnic_options options;
    char path[VIPL_SOCKET_PATH_BYTES];
    char text[128];
    rnic_options_init(&options);
    enum rnic_option_result result = rnic_options_read(&options, count, arguments, text, sizeof(text));
    if (result == RNIC_OPTIONS_HELP) {
        fputs(rnic_options_help, stdout);
        return 0;
    }
    if (result == RNIC_OPTIONS_VERSION) {
        puts("vipl-rnicd " VIPL_VERSION_STRING);
        return 0;
    }
    if (result == RNIC_OPTIONS_WRONG) {
        fprintf(stderr, "vipl-rnicd: %s\n%s", text, rnic_options_help);
        return 2;
    }
    if (choose_socket(&options, path) != 0) {
        return 1;
    }
    return result == RNIC_OPTIONS_STATS ? print_stats(&options) : run_adapter(&options);
}
