/* SPDX-License-Identifier: MIT */
/*
 * vipl-perf's command line. perf_parse() checks every value; what it lets through needs no second
 * look, and sizes and CPUs left open are chosen here.
 */
#include "perf.h"

#include <string.h>

#include "tool_options.h"
#include "tool_os.h"
#include "tool_text.h"

#define DEFAULT_DISCRIMINATOR "vipl-perf"

static void print_help(void)
{
    puts("usage: vipl-perf --pair | --local | --server | --client [ADDR]  [options]\n"
         "Measures latency, bandwidth and message rate of VIPL.\n"
         "\n"
         "  -p, --pair                client and server in two processes, on CPUs of their own\n"
         "  -l, --local               both VIs in one process and one thread\n"
         "  -s, --server              serve clients until interrupted\n"
         "  -C, --client [ADDR]       measure against a server: address bytes 02:00:.. or a host\n"
         "                            name; default: this host\n"
         "  -t, --test LIST           lat, bw, bibw, rate or all (default lat)\n"
         "  -o, --op LIST             send, write, read or all (default send)\n"
         "  -n, --size N[..M]         bytes per message, doubled from N to M; K and M are units; at\n"
         "                            most what the device transfers at once, 4M, see vipl-info\n"
         "                            (default 8 for lat and rate, 64K for bw and bibw)\n"
         "  -w, --wait poll|block     how completions are awaited (default poll)\n"
         "  -T, --duration S          seconds a figure and round (default 1)\n"
         "  -i, --iters N             messages a figure and round, instead of a duration\n"
         "  -W, --warmup N            messages before the clock runs (default 1000), as long\n"
         "                            as they take less than an eighth of the duration\n"
         "  -R, --rounds N            rounds over all figures, interleaved (default 1)\n"
         "  -q, --depth N             messages in flight in bw, bibw and rate (default 64)\n"
         "  -v, --verify              check every byte of every message; the time it takes is not\n"
         "                            in latencies, and is in bandwidths and rates\n"
         "  -L, --limits              with --pair or --local: measure beside each figure what the\n"
         "                            machine can do without VIPL, and print ratios\n"
         "  -X, --compare             with --pair or --local: measure beside each figure a plain\n"
         "                            TCP connection that waits the same way, and print the ratio\n"
         "  -c, --cq                  reap through a completion queue\n"
         "  -M, --memory KIND         heap, or shared: VipxAllocShared's, which peers of this host\n"
         "                            map, so that RDMA takes no system call (default heap)\n"
         "  -e, --receiver KIND       memory: who waits for an RDMA Write looks at its last byte;\n"
         "                            poll: and calls VIPL in between (default memory)\n"
         "  -r, --reliability LEVEL   unreliable, delivery or reception (default delivery)\n"
         "  -d, --device NAME         device (default: the default device)\n"
         "  -D, --discriminator TEXT  where the server waits (default " DEFAULT_DISCRIMINATOR ")\n"
         "  -N, --connections N       VIs that are used in turn, on a completion queue (default 1)\n"
         "  -J, --threads N           threads at each end, each with its connections (default 1)\n"
         "  -P, --cpus A[,B]          CPUs of client and server, or none (default with --pair and\n"
         "                            --local: the first two, unless there are threads)\n"
         "  -m, --timeout MS          give up after so long without progress (default 10000)\n"
         "  -1, --once                a server that serves one client and ends\n"
         "  -F, --format FORMAT       table, json (one object a row) or csv (default table)\n"
         "  -j, --json                --format json\n"
         "  -V, --version             print the version and exit\n"
         "  -h, --help                print this and exit\n"
         "\n"
         "Latencies are half a round trip; of a read, the whole read. Exit code: 0, 1 for a\n"
         "failure or a wrong byte, 2 for wrong usage, 130 when interrupted.");
}

static const struct option long_options[] = {
    {"pair", no_argument, NULL, 'p'},
    {"local", no_argument, NULL, 'l'},
    {"server", no_argument, NULL, 's'},
    {"client", optional_argument, NULL, 'C'},
    {"test", required_argument, NULL, 't'},
    {"op", required_argument, NULL, 'o'},
    {"size", required_argument, NULL, 'n'},
    {"wait", required_argument, NULL, 'w'},
    {"duration", required_argument, NULL, 'T'},
    {"iters", required_argument, NULL, 'i'},
    {"warmup", required_argument, NULL, 'W'},
    {"rounds", required_argument, NULL, 'R'},
    {"depth", required_argument, NULL, 'q'},
    {"verify", no_argument, NULL, 'v'},
    {"limits", no_argument, NULL, 'L'},
    {"compare", no_argument, NULL, 'X'},
    {"cq", no_argument, NULL, 'c'},
    {"memory", required_argument, NULL, 'M'},
    {"receiver", required_argument, NULL, 'e'},
    {"connections", required_argument, NULL, 'N'},
    {"threads", required_argument, NULL, 'J'},
    {"reliability", required_argument, NULL, 'r'},
    {"device", required_argument, NULL, 'd'},
    {"discriminator", required_argument, NULL, 'D'},
    {"cpus", required_argument, NULL, 'P'},
    {"timeout", required_argument, NULL, 'm'},
    {"once", no_argument, NULL, '1'},
    {"format", required_argument, NULL, 'F'},
    {"json", no_argument, NULL, 'j'},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* ---- values ---------------------------------------------------------------------------------- */

static bool set_role(struct perf_options *options, enum perf_role role)
{
    bool first = options->role == PERF_ROLE_NONE || options->role == role;

    options->role = role;
    return first;
}

static const char *test_name(unsigned index)
{
    return perf_test_text((enum perf_test)index);
}

static const char *op_name(unsigned index)
{
    return perf_op_text((enum perf_op)index);
}

/* "lat,bw" or "all" to bits. */
static bool parse_list(const char *text, const char *(*name)(unsigned), unsigned names, unsigned *bits)
{
    *bits = 0;
    if (strcmp(text, "all") == 0) {
        *bits = (1u << names) - 1;
        return true;
    }
    while (*text != '\0') {
        size_t length = strcspn(text, ",");
        unsigned index = 0;

        while (index < names && (strlen(name(index)) != length || memcmp(name(index), text, length) != 0)) {
            index++;
        }
        if (index == names) {
            return false;
        }
        *bits |= 1u << index;
        text += length + (text[length] == ',');
    }
    return *bits != 0;
}

/* "N" or "N..M". */
static bool parse_sizes(const char *text, struct perf_options *options)
{
    const char *dots = strstr(text, "..");
    char first[32];
    size_t length = dots != NULL ? (size_t)(dots - text) : strlen(text);

    if (length >= sizeof(first)) {
        return false;
    }
    memcpy(first, text, length);
    first[length] = '\0';
    return tool_parse_number(first, 1, PERF_MAX_SIZE, &options->min_size) &&
           tool_parse_number(dots != NULL ? dots + 2 : first, options->min_size, PERF_MAX_SIZE,
                             &options->max_size);
}

/* "A", "A,B" or "none". */
static bool parse_cpus(const char *text, struct perf_options *options)
{
    const char *comma = strchr(text, ',');
    char first[16];
    size_t length = comma != NULL ? (size_t)(comma - text) : strlen(text);
    uint64_t cpu;

    options->cpus_given = true;
    if (strcmp(text, "none") == 0) {
        return true;
    }
    if (length >= sizeof(first)) {
        return false;
    }
    memcpy(first, text, length);
    first[length] = '\0';
    if (!tool_parse_number(first, 0, 65535, &cpu)) {
        return false;
    }
    options->cpus[0] = (int)cpu;
    if (comma != NULL && !tool_parse_number(comma + 1, 0, 65535, &cpu)) {
        return false;
    }
    options->cpus[1] = (int)cpu;
    return true;
}

static bool parse_wait(const char *text, bool *block)
{
    *block = strcmp(text, "block") == 0;
    return *block || strcmp(text, "poll") == 0;
}

static bool parse_format(const char *text, enum perf_format *format)
{
    static const char *const names[] = {"table", "json", "csv"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) == 0) {
            *format = (enum perf_format)i;
            return true;
        }
    }
    return false;
}

/* ---- options --------------------------------------------------------------------------------- */

static bool take_role(struct perf_options *options, int option)
{
    switch (option) {
    case 'p':
        return set_role(options, PERF_ROLE_PAIR);
    case 'l':
        return set_role(options, PERF_ROLE_LOCAL);
    case 's':
        return set_role(options, PERF_ROLE_SERVER);
    case 'C':
        options->host = optarg;
        return set_role(options, PERF_ROLE_CLIENT);
    default:
        return false;
    }
}

static bool take_flag(struct perf_options *options, int option)
{
    switch (option) {
    case 'v':
        options->verify = true;
        return true;
    case 'L':
        options->limits |= PERF_LIMITS_HERE;
        return true;
    case 'X':
        options->limits |= 1u << PERF_LIMIT_TCP;
        return true;
    case 'c':
        options->cq = true;
        return true;
    case '1':
        options->once = true;
        return true;
    case 'j':
        options->format = PERF_JSON;
        return true;
    default:
        return take_role(options, option);
    }
}

static bool take_number(struct perf_options *options, int option)
{
    switch (option) {
    case 'n':
        return parse_sizes(optarg, options);
    case 'T':
        return tool_parse_seconds(optarg, &options->duration_ns);
    case 'i':
        return tool_parse_number(optarg, 1, UINT32_MAX, &options->iterations);
    case 'W':
        return tool_parse_number(optarg, 1, UINT32_MAX, &options->warmup);
    case 'R':
        return tool_parse_number(optarg, 1, PERF_MAX_ROUNDS, &options->rounds);
    case 'q':
        return tool_parse_number(optarg, 1, PERF_MAX_DEPTH, &options->depth);
    case 'N':
        return tool_parse_number(optarg, 1, PERF_MAX_CONNECTIONS, &options->connections);
    case 'J':
        return tool_parse_number(optarg, 1, PERF_MAX_THREADS, &options->threads);
    case 'm':
        return tool_parse_number(optarg, 1, 3600000, &options->timeout_ms);
    case 'P':
        return parse_cpus(optarg, options);
    default:
        return take_flag(options, option);
    }
}

static bool take(void *into, int option)
{
    struct perf_options *options = into;

    switch (option) {
    case 't':
        return parse_list(optarg, test_name, PERF_TESTS, &options->tests);
    case 'o':
        return parse_list(optarg, op_name, PERF_OPS, &options->ops);
    case 'F':
        return parse_format(optarg, &options->format);
    case 'w':
        return parse_wait(optarg, &options->block);
    case 'M':
        options->shared_memory = strcmp(optarg, "shared") == 0;
        return options->shared_memory || strcmp(optarg, "heap") == 0;
    case 'e':
        options->polls = strcmp(optarg, "poll") == 0;
        return options->polls || strcmp(optarg, "memory") == 0;
    case 'r':
        return tool_parse_level(optarg, &options->level);
    case 'd':
        options->device = optarg;
        return true;
    case 'D':
        return tool_parse_discriminator(optarg, &options->discriminator);
    default:
        return take_number(options, option);
    }
}

/* ---- what was left open ---------------------------------------------------------------------- */

static bool streams(const struct perf_options *options)
{
    return (options->tests & (1u << PERF_BW | 1u << PERF_BIBW)) != 0;
}

static void choose(struct perf_options *options)
{
    bool here = options->role == PERF_ROLE_PAIR || options->role == PERF_ROLE_LOCAL;

    if (options->max_size == 0) {
        options->max_size = streams(options) ? PERF_DEFAULT_STREAM : PERF_DEFAULT_SMALL;
    }
    if (here && !options->cpus_given && (options->threads > 1 || tool_cpus(options->cpus, 2) < 2)) {
        options->cpus[0] = -1;
        options->cpus[1] = -1;
    }
    if (options->block && (options->tests & (1u << PERF_BIBW)) != 0) {
        options->cq = true; /* one thread can only sleep on both queues through a completion queue */
    }
    options->cq = options->cq || options->connections > 1;
}

static bool consistent(const struct perf_options *options)
{
    bool here = options->role == PERF_ROLE_PAIR || options->role == PERF_ROLE_LOCAL;

    if (options->role == PERF_ROLE_NONE) {
        tool_complain("one of --pair, --local, --server and --client is needed");
        return false;
    }
    if (options->limits != 0 && !here) {
        tool_complain("--limits and --compare need --pair or --local");
        return false;
    }
    if (options->role == PERF_ROLE_LOCAL && (options->block || options->cq)) {
        tool_complain("--local polls, without a completion queue");
        return false;
    }
    if (options->role == PERF_ROLE_LOCAL && (options->threads > 1 || options->connections > 1)) {
        tool_complain("--local has one thread and one connection");
        return false;
    }
    if (options->verify && options->connections > 1) {
        tool_complain("--verify needs one connection: messages of several arrive in any order");
        return false;
    }
    return true;
}

static void set_defaults(struct perf_options *options)
{
    memset(options, 0, sizeof(*options));
    options->discriminator = DEFAULT_DISCRIMINATOR;
    options->level = VIP_SERVICE_RELIABLE_DELIVERY;
    options->tests = 1u << PERF_LAT;
    options->ops = 1u << PERF_SEND;
    options->depth = 64;
    options->duration_ns = UINT64_C(1000000000);
    options->warmup = 1000;
    options->rounds = 1;
    options->threads = 1;
    options->connections = 1;
    options->timeout_ms = 10000;
    options->cpus[0] = -1;
    options->cpus[1] = -1;
}

static const struct tool_command command = {"plsC::t:o:n:w:T:i:W:R:q:vLXcM:e:N:J:r:d:D:P:m:1F:jVh",
                                            long_options, print_help, take};

int perf_parse(int argc, char **argv, struct perf_options *options)
{
    set_defaults(options);
    int code = tool_parse_options(argc, argv, &command, options);
    if (code >= 0) {
        return code;
    }
    if (options->role == PERF_ROLE_CLIENT && options->host == NULL && optind < argc) {
        options->host = argv[optind++];
    }
    if (optind < argc) {
        tool_complain("unexpected argument \"%s\"", argv[optind]);
        return TOOL_USAGE;
    }
    if (!consistent(options)) {
        return TOOL_USAGE;
    }
    choose(options);
    return -1;
}
