/* SPDX-License-Identifier: MIT */
/*
 * vipl-ping: send messages to another process, have them echoed, check every byte on both sides.
 * Here is the pair of processes; ping_options.c reads the command line, ping_server.c and
 * ping_client.c do the work.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ping.h"
#include "tool_os.h"
#include "tool_reason.h"
#include "tool_text.h"

/* Server and client in two processes; the client's exit code counts. */
static int run_pair(struct ping_options *options)
{
    static char discriminator[32];
    pid_t child;
    int code;
    int server_code;

    snprintf(discriminator, sizeof(discriminator), "ping-%ld", (long)getpid());
    options->discriminator = discriminator;
    options->once = true;
    tool_reasons_begin(); /* once for both */
    child = tool_fork();
    if (child < 0) {
        tool_complain("fork: %s", strerror(errno));
        return TOOL_FAILED;
    }
    if (child == 0) {
        code = ping_run_server(options);
        fflush(NULL);
        _exit(code);
    }
    code = ping_run_client(options);
    if (code != TOOL_OK) {
        tool_end_child(child); /* it may still wait for a client */
    }
    server_code = tool_wait_child(child, (uint32_t)options->timeout_ms);
    if (server_code != TOOL_OK && code == TOOL_OK) {
        tool_complain("the server process ended with code %d", server_code);
        return TOOL_FAILED;
    }
    return code;
}

int main(int argc, char **argv)
{
    struct ping_options options;
    int code;

    tool_name = "vipl-ping";
    code = ping_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    tool_catch_stop();
    switch (options.role) {
    case ROLE_SERVER:
        return ping_run_server(&options);
    case ROLE_PAIR:
        return run_pair(&options);
    default:
        return ping_run_client(&options);
    }
}
