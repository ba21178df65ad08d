/* SPDX-License-Identifier: MIT */
/* vipl-cap's command line. */
#include <stdio.h>
#include <string.h>

#include "cap.h"
#include "tool_options.h"
#include "tool_text.h"

#define NS UINT64_C(1000000000)
#define MAX_SNAPLEN UINT64_C(65400)
#define MAX_FILES UINT64_C(1000000)

static void print_help(void)
{
    puts("usage: vipl-cap --port PORT --store STORE [OPTION...]\n"
         "Receives packets into memory and writes them as pcapng, until SIGINT or SIGTERM.\n"
         "\n"
         "  -P, --port PORT         packet:IFACE, rnic:DEVICE\n"
         "  -S, --store STORE       file:PATH, nvme:ADDRESS,lba=N,blocks=N\n"
         "  -M, --memory MEMORY     ram (the default), rnic, cmb:ADDRESS, p2p:ADDRESS, bar:ADDRESS:N\n"
         "  -A, --allow-ram         take ram where MEMORY cannot serve\n"
         "  -B, --bytes BYTES       of the memory (64M, or what the device has)\n"
         "  -C, --chunk BYTES       of one transfer to the store, 64K or more (1M)\n"
         "  -L, --snaplen BYTES     of a packet that are kept, at most 65400 (all of a frame)\n"
         "  -R, --ring FILES:BYTES  begin another file when one has BYTES (K, M, G), keep the last FILES;\n"
         "                          a number comes before the end of the name\n"
         "  -c, --compact           blocks without fillers; the CPU copies the packets\n"
         "\n"
         "  -n, --count N           at most N packets\n"
         "  -t, --duration SECS     at most so long\n"
         "\n"
         "  -s, --stats SECS        counters at this interval\n"
         "  -j, --json              JSON, one object per line\n"
         "  -e, --explain           print how packets would go, and end\n"
         "  -o, --plot FILE         a picture of the rate over time, by gnuplot: .svg, .png or .pdf\n"
         "  -V, --version           print the version and exit\n"
         "  -h, --help              print this and exit\n"
         "\n"
         "Exit code: 0; 1 on failure; 2 for wrong usage, also a path that cannot work; 3 if packets\n"
         "were lost.");
}

static const struct option long_options[] = {
    {"port", required_argument, NULL, 'P'},     {"store", required_argument, NULL, 'S'},
    {"memory", required_argument, NULL, 'M'},   {"allow-ram", no_argument, NULL, 'A'},
    {"bytes", required_argument, NULL, 'B'},    {"chunk", required_argument, NULL, 'C'},
    {"snaplen", required_argument, NULL, 'L'},  {"ring", required_argument, NULL, 'R'},
    {"compact", no_argument, NULL, 'c'},        {"count", required_argument, NULL, 'n'},
    {"duration", required_argument, NULL, 't'}, {"stats", required_argument, NULL, 's'},
    {"json", no_argument, NULL, 'j'},           {"explain", no_argument, NULL, 'e'},
    {"plot", required_argument, NULL, 'o'},     {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0},
};

/* FILES:BYTES. */
static bool take_ring(struct cap_options *o, const char *text)
{
    const char *colon = strchr(text, ':');
    char files[16];
    uint64_t number = 0;
    size_t length = colon != NULL ? (size_t)(colon - text) : sizeof(files);

    if (length >= sizeof(files)) {
        return false;
    }
    memcpy(files, text, length);
    files[length] = '\0';
    if (!tool_parse_number(files, 1, MAX_FILES, &number)) {
        return false;
    }
    o->receive.ring_files = (uint32_t)number;
    return tool_parse_number(colon + 1, 1, UINT64_C(1) << 62, &o->receive.ring_bytes);
}

static bool take(void *into, int option)
{
    struct cap_options *o = into;
    uint64_t number = 0;
    bool is_right;

    if (traffic_take_option(&o->common, option, optarg, &is_right)) {
        return is_right;
    }
    switch (option) {
    case 'L':
        is_right = tool_parse_number(optarg, 1, MAX_SNAPLEN, &number);
        o->receive.snaplen = (uint32_t)number;
        return is_right;
    case 'R':
        return take_ring(o, optarg);
    case 'c':
        o->receive.compact = 1;
        return true;
    case 'n':
        return traffic_parse_decimal(optarg, 1, UINT64_MAX, &o->receive.count);
    case 't':
        return traffic_parse_decimal(optarg, NS, NS * NS, &o->receive.duration_ns);
    default:
        return false;
    }
}

int cap_parse(int argc, char **argv, struct cap_options *options)
{
    static const struct tool_command command = {"P:S:M:AB:C:L:R:cn:t:s:jeo:Vh", long_options, print_help,
                                                take};
    int code;

    memset(options, 0, sizeof(*options));
    code = tool_parse_options(argc, argv, &command, options);
    if (code != -1) {
        return code;
    }
    if (optind < argc) {
        tool_complain("unexpected argument \"%s\"", argv[optind]);
        return TOOL_USAGE;
    }
    if (options->common.path.store == NULL || options->common.path.port == NULL) {
        tool_complain("--port and --store are needed");
        return TOOL_USAGE;
    }
    return -1;
}
