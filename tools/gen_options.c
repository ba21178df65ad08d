/* SPDX-License-Identifier: MIT */
/* vipl-gen's command line. */
#include <stdio.h>
#include <string.h>

#include "gen.h"
#include "tool_options.h"
#include "tool_text.h"

#define MILLION UINT64_C(1000000)
#define NS UINT64_C(1000000000)

static void print_help(void)
{
    puts("usage: vipl-gen --store STORE --port PORT [OPTION...]\n"
         "       vipl-gen --store STORE --index FILE\n"
         "Sends the packets of a recording, pcap or pcapng, from memory.\n"
         "\n"
         "  -S, --store STORE    file:PATH, nvme:ADDRESS[,lba=N][,blocks=N]\n"
         "  -P, --port PORT      packet:IFACE, rnic:DEVICE\n"
         "  -M, --memory MEMORY  ram (the default), rnic, cmb:ADDRESS, p2p:ADDRESS, bar:ADDRESS:N\n"
         "  -A, --allow-ram      take ram where MEMORY cannot serve\n"
         "  -B, --bytes BYTES    of the memory (64M, or what the device has)\n"
         "  -C, --chunk BYTES    of one transfer from the store, 64K or more (1M)\n"
         "  -i, --index FILE     where the packets are: is read, or written first if it is not there\n"
         "\n"
         "How fast; at the top speed without one of these:\n"
         "  -r, --rate BITS      of frames per second (10M, 2.5G), without preamble, CRC and gap\n"
         "  -p, --pps PACKETS    per second\n"
         "  -g, --gap NS         nanoseconds from one packet to the next\n"
         "  -a, --as-recorded    with the gaps of the recording\n"
         "  -x, --multiplier N   as recorded, N times as fast (0.5, 20)\n"
         "  -b, --burst N        N packets at a time, at the same rate\n"
         "\n"
         "How long:\n"
         "  -l, --loop N         the recording N times (1); 0: for ever\n"
         "  -n, --count N        at most N packets\n"
         "  -t, --duration SECS  at most so long\n"
         "\n"
         "  -s, --stats SECS     counters at this interval\n"
         "  -j, --json           JSON, one object per line\n"
         "  -e, --explain        print how packets would go, and end\n"
         "  -o, --plot FILE      a picture of the rate over time, by gnuplot: .svg, .png or .pdf\n"
         "  -V, --version        print the version and exit\n"
         "  -h, --help           print this and exit\n"
         "\n"
         "Exit code: 0; 1 on failure; 2 for wrong usage, also a path that cannot work; 3 if packets\n"
         "were lost; 130 if a signal has ended it early.");
}

static const struct option long_options[] = {
    {"store", required_argument, NULL, 'S'},
    {"port", required_argument, NULL, 'P'},
    {"memory", required_argument, NULL, 'M'},
    {"allow-ram", no_argument, NULL, 'A'},
    {"bytes", required_argument, NULL, 'B'},
    {"chunk", required_argument, NULL, 'C'},
    {"index", required_argument, NULL, 'i'},
    {"rate", required_argument, NULL, 'r'},
    {"pps", required_argument, NULL, 'p'},
    {"gap", required_argument, NULL, 'g'},
    {"as-recorded", no_argument, NULL, 'a'},
    {"multiplier", required_argument, NULL, 'x'},
    {"burst", required_argument, NULL, 'b'},
    {"loop", required_argument, NULL, 'l'},
    {"count", required_argument, NULL, 'n'},
    {"duration", required_argument, NULL, 't'},
    {"stats", required_argument, NULL, 's'},
    {"json", no_argument, NULL, 'j'},
    {"explain", no_argument, NULL, 'e'},
    {"plot", required_argument, NULL, 'o'},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool take_pace(struct gen_options *o, enum vipl_dm_pace pace, bool is_right)
{
    o->send.pace = pace;
    o->paces++;
    return is_right;
}

static bool take(void *into, int option)
{
    struct gen_options *o = into;
    uint64_t number = 0;
    bool is_right;

    if (traffic_take_option(&o->common, option, optarg, &is_right)) {
        return is_right;
    }
    switch (option) {
    case 'i':
        o->send.index = optarg;
        return optarg[0] != '\0';
    case 'r':
        return take_pace(o, VIPL_DM_BITS, traffic_parse_decimal(optarg, 1, NS * MILLION, &o->send.rate));
    case 'p':
        return take_pace(o, VIPL_DM_PACKETS, traffic_parse_decimal(optarg, 1, NS, &o->send.rate));
    case 'g':
        return take_pace(o, VIPL_DM_GAP, traffic_parse_decimal(optarg, 1, NS * MILLION, &o->send.rate));
    case 'a':
        o->multiplier = o->multiplier == 0 ? MILLION : o->multiplier;
        return true;
    case 'x':
        return traffic_parse_decimal(optarg, MILLION, MILLION * MILLION, &o->multiplier);
    case 'b':
        is_right = traffic_parse_decimal(optarg, 1, UINT32_MAX, &number);
        o->send.burst = (uint32_t)number;
        return is_right;
    case 'l':
        o->send.loops = 0;
        return strcmp(optarg, "0") == 0 || traffic_parse_decimal(optarg, 1, UINT64_MAX, &o->send.loops);
    case 'n':
        return traffic_parse_decimal(optarg, 1, UINT64_MAX, &o->send.count);
    case 't':
        return traffic_parse_decimal(optarg, NS, NS * NS, &o->send.duration_ns);
    default:
        return false;
    }
}

/* What goes with what. */
static bool is_complete(struct gen_options *o)
{
    if (o->multiplier != 0) {
        take_pace(o, VIPL_DM_RECORDED, true);
        o->send.rate = o->multiplier;
    }
    if (o->paces > 1) {
        tool_complain("only one of --rate, --pps, --gap and --as-recorded (--multiplier) says how fast");
        return false;
    }
    if (o->common.path.store == NULL || (o->common.path.port == NULL && o->send.index == NULL)) {
        tool_complain("--store, and --port or --index, are needed");
        return false;
    }
    if (o->send.burst > 1 && o->paces == 0) {
        tool_complain("--burst needs a rate: at the top speed there are no pauses");
        return false;
    }
    return true;
}

int gen_parse(int argc, char **argv, struct gen_options *options)
{
    static const struct tool_command command = {"S:P:M:AB:C:i:r:p:g:ax:b:l:n:t:s:jeo:Vh", long_options,
                                                print_help, take};
    int code;

    memset(options, 0, sizeof(*options));
    options->send.loops = 1;
    code = tool_parse_options(argc, argv, &command, options);
    if (code != -1) {
        return code;
    }
    if (optind < argc) {
        tool_complain("unexpected argument \"%s\"", argv[optind]);
        return TOOL_USAGE;
    }
    return is_complete(options) ? -1 : TOOL_USAGE;
}
