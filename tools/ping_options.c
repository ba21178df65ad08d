/* SPDX-License-Identifier: MIT */
/* vipl-ping's command line: every value is checked here, and nothing is started. */
#include <stdio.h>

#include "ping.h"
#include "tool_options.h"
#include "tool_text.h"

#define DEFAULT_DISCRIMINATOR "vipl-ping"

static void print_help(void)
{
    puts("usage: vipl-ping --server | --client [ADDR] | --pair  [options]\n"
         "Sends messages through VIPL, has them echoed, and checks every byte on both sides.\n"
         "\n"
         "  -s, --server              serve clients until interrupted\n"
         "  -C, --client [ADDR]       ping a server: address bytes 02:00:.. or a host name;\n"
         "                            default: this host\n"
         "  -p, --pair                server and client in two processes of this host\n"
         "  -c, --count N             messages (default 5)\n"
         "  -n, --size N              bytes per message (default 64), from 1 to what the device\n"
         "                            transfers at once, 4M, see vipl-info; K and M are units\n"
         "  -t, --timeout MS          for connecting and for each echo (default 5000); a server\n"
         "                            drops a client that is silent for twice as long, an\n"
         "                            unreliable one for ten times as long\n"
         "  -d, --device NAME         device (default: the default device)\n"
         "  -r, --reliability LEVEL   unreliable, delivery or reception (default delivery)\n"
         "  -D, --discriminator TEXT  where the server waits (default " DEFAULT_DISCRIMINATOR ")\n"
         "  -1, --once                a server that serves one client and ends\n"
         "  -S, --selftest            corrupt a byte and a guard byte: succeeds if both are seen\n"
         "  -q, --quiet               no line for each message; a server: none for each client\n"
         "  -j, --json                the summary as one JSON object\n"
         "  -V, --version             print the version and exit\n"
         "  -h, --help                print this and exit\n"
         "\n"
         "Exit code: 0 when every message came back intact, 1 when not or without a\n"
         "connection, 2 for wrong usage, 130 when interrupted.");
}

static const struct option long_options[] = {
    {"server", no_argument, NULL, 's'},
    {"client", optional_argument, NULL, 'C'},
    {"pair", no_argument, NULL, 'p'},
    {"count", required_argument, NULL, 'c'},
    {"size", required_argument, NULL, 'n'},
    {"timeout", required_argument, NULL, 't'},
    {"device", required_argument, NULL, 'd'},
    {"reliability", required_argument, NULL, 'r'},
    {"discriminator", required_argument, NULL, 'D'},
    {"once", no_argument, NULL, '1'},
    {"selftest", no_argument, NULL, 'S'},
    {"quiet", no_argument, NULL, 'q'},
    {"json", no_argument, NULL, 'j'},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool set_role(struct ping_options *options, enum role role)
{
    if (options->role != ROLE_NONE && options->role != role) {
        tool_complain("--server, --client and --pair exclude each other");
        return false;
    }
    options->role = role;
    return true;
}

/* One option that takes no number. Returns false for wrong usage. */
static bool take_word(struct ping_options *options, int option)
{
    switch (option) {
    case 's':
        return set_role(options, ROLE_SERVER);
    case 'C':
        options->host = optarg;
        return set_role(options, ROLE_CLIENT);
    case 'p':
        return set_role(options, ROLE_PAIR);
    case 'd':
        options->device = optarg;
        return true;
    case 'D':
        return tool_parse_discriminator(optarg, &options->discriminator);
    case 'r':
        return tool_parse_level(optarg, &options->level);
    case '1':
        options->once = true;
        return true;
    case 'S':
        options->selftest = true;
        return true;
    case 'q':
        options->quiet = true;
        return true;
    case 'j':
        options->json = true;
        options->quiet = true;
        return true;
    default:
        return false;
    }
}

static bool take(void *into, int option)
{
    struct ping_options *options = into;

    switch (option) {
    case 'c':
        return tool_parse_number(optarg, 1, UINT32_MAX, &options->count);
    case 'n':
        return tool_parse_number(optarg, 1, PING_MAX_SIZE, &options->size);
    case 't':
        return tool_parse_number(optarg, 1, 3600000, &options->timeout_ms);
    default:
        return take_word(options, option);
    }
}

static const struct tool_command command = {"sC::pc:n:t:d:r:D:1SqjVh", long_options, print_help, take};

int ping_parse(int argc, char **argv, struct ping_options *options)
{
    *options = (struct ping_options){
        .discriminator = DEFAULT_DISCRIMINATOR,
        .level = VIP_SERVICE_RELIABLE_DELIVERY,
        .count = 5,
        .size = 64,
        .timeout_ms = 5000,
    };
    int code = tool_parse_options(argc, argv, &command, options);
    if (code >= 0) {
        return code;
    }
    if (options->role == ROLE_CLIENT && options->host == NULL && optind < argc) {
        options->host = argv[optind++];
    }
    if (optind < argc || options->role == ROLE_NONE) {
        tool_complain(optind < argc ? "unexpected argument"
                                    : "one of --server, --client and --pair is needed");
        return TOOL_USAGE;
    }
    return -1;
}
