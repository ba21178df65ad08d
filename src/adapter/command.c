/* SPDX-License-Identifier: MIT */
/* Running an adapter: in the foreground, or in the background for a program that waits until it runs. */
#include "adapter/command.h"

#include <errno.h>
#include <stdio.h>

#include "adapter/options.h"
#include "rnic/start.h"
#include "vipl/version.h"

static struct rnic_adapter *running; /* for a signal's handler; NULL: not yet */

static void end(void)
{
    if (running != NULL) {
        rnic_adapter_end(running);
    }
}

static void say(int lifeline, enum rnic_adapter_start what)
{
    unsigned char byte = (unsigned char)what;
    if (lifeline >= 0) {
        (void)vipl_local_send(lifeline, &byte, 1, NULL, 0);
        vipl_fd_close(lifeline);
    }
}

/* Until it is to end. Another adapter that has the path already is as good to a program that waits. */
static int serve(const struct rnic_options *options)
{
    struct rnic_adapter *adapter;
    int error = rnic_adapter_create(&options->adapter, &adapter);
    if (error == 0) {
        running = adapter;
        vipl_on_end(end);
    }
    say(options->lifeline, error == 0 || error == EADDRINUSE ? RNIC_ADAPTER_RUNS : RNIC_ADAPTER_FAILED);
    if (error == 0) {
        rnic_adapter_run(adapter);
        running = NULL;
        rnic_adapter_destroy(adapter);
    }
    return error;
}

static int run(const struct rnic_options *options)
{
    char text[128];
    if (options->lifeline >= 0) {
        int error = vipl_detach("vipl-rnicd", &options->lifeline, 1);
        if (error != 0) {
            return 1;
        }
    }
    vipl_fd_raise_limit(); /* each program has some twenty descriptors here */
    int error = serve(options);
    if (error != 0 && options->lifeline < 0) {
        fprintf(stderr, "vipl-rnicd: %s\n",
                error == EADDRINUSE ? "another adapter serves that socket"
                                    : vipl_os_error(error, text, sizeof(text)));
    }
    return error == 0 ? 0 : 1;
}

int rnic_adapter_command(int count, char **arguments)
{
    struct rnic_options options;
    char text[128];
    rnic_options_init(&options);
    switch (rnic_options_read(&options, count, arguments, text, sizeof(text))) {
    case RNIC_OPTIONS_RUN:
        return run(&options);
    case RNIC_OPTIONS_HELP:
        fputs(rnic_options_help, stdout);
        return 0;
    case RNIC_OPTIONS_VERSION:
        puts("vipl-rnicd " VIPL_VERSION_STRING);
        return 0;
    default:
        fprintf(stderr, "vipl-rnicd: %s\n%s", text, rnic_options_help);
        return 2;
    }
}

void rnic_adapter_fork(const char *path, int lifeline)
{
    struct rnic_options options;
    rnic_options_init(&options);
    options.adapter.socket = path;
    options.adapter.lingers = true;
    options.lifeline = lifeline;
    vipl_fd_raise_limit();
    (void)serve(&options);
}
