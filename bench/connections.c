/* SPDX-License-Identifier: MIT */
/*
 * What many connections cost, in one process or between two: the memory of a connected VI, and how
 * long one takes to connect and to disconnect, for the first and the last quarter of them: a figure
 * that grows says that something is looked for among all. Exits with 1 if a VI takes more memory
 * than a limit that is given.
 */
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pairs.h"
#include "tool_os.h"
#include "tool_text.h"
#include "tool_vipl.h"

#define DEFAULT_PAIRS 32000ul
#define QUARTERS 4
#define WARM_UP 64ul

struct figures {
    unsigned long vis; /* of this process */
    double connect_us[QUARTERS];
    double disconnect_us[QUARTERS];
    double resident; /* bytes a VI of this process */
};

static bool create(struct bench_end *end)
{
    VIP_VI_ATTRIBUTES attributes = {VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};

    end->vis = calloc(end->count, sizeof(VIP_VI_HANDLE));
    for (unsigned long i = 0; end->vis != NULL && i < end->count; i++) {
        if (!bench_right("VipCreateVi", VipCreateVi(end->nic, &attributes, NULL, NULL, &end->vis[i]))) {
            return false;
        }
    }
    return end->vis != NULL;
}

static void destroy(struct bench_end *end)
{
    for (unsigned long i = 0; end->vis != NULL && i < end->count; i++) {
        tool_vi_destroy(end->vis[i]);
    }
    free(end->vis);
    end->vis = NULL;
}

static bool disconnect(const struct bench_end *end, unsigned long first, unsigned long count)
{
    for (unsigned long i = first; i < first + count; i++) {
        if (!bench_right("VipDisconnect", VipDisconnect(end->vis[i]))) {
            return false;
        }
    }
    return true;
}

/* us that one took, of each quarter. */
static bool in_quarters(const struct bench_end *end,
                        bool (*some)(const struct bench_end *, unsigned long, unsigned long),
                        double us[QUARTERS])
{
    unsigned long count = end->count / QUARTERS;

    for (unsigned long quarter = 0; quarter < QUARTERS; quarter++) {
        uint64_t start = tool_now_ns();

        if (!some(end, quarter * count, count)) {
            return false;
        }
        us[quarter] = (double)(tool_now_ns() - start) / 1e3 / (double)count;
    }
    return true;
}

/* Both ends here, on one NIC handle. */
static bool measure_here(struct bench_end *requester, struct figures *figures)
{
    struct bench_end acceptor = *requester;
    double before = tool_resident_bytes();
    pthread_t thread;
    void *accepted = NULL;
    bool well = create(requester) && create(&acceptor) &&
                pthread_create(&thread, NULL, bench_accept_thread, &acceptor) == 0;

    if (well) {
        well = in_quarters(requester, bench_request, figures->connect_us);
        pthread_join(thread, &accepted);
        well = well && accepted != NULL;
    }
    figures->vis = 2 * requester->count;
    figures->resident = (tool_resident_bytes() - before) / (double)figures->vis;
    well = well && in_quarters(requester, disconnect, figures->disconnect_us);
    destroy(&acceptor);
    destroy(requester);
    return well;
}

/* The accepting end in a process of its own: says when it is about to wait, and ends when the other
 * has disconnected. */
static int accept_in_child(const char *device, const struct bench_end *like, int ready, int over)
{
    struct bench_end end = {.name = like->name, .count = like->count};
    char byte = 0;
    bool well = tool_open(device, &end.nic) && create(&end);

    well = well && write(ready, &byte, 1) == 1 && bench_accept(&end);
    well = well && read(over, &byte, 1) == 0;
    destroy(&end);
    VipCloseNic(end.nic);
    return well ? 0 : 1;
}

static bool measure_between(const char *device, struct bench_end *requester, struct figures *figures)
{
    int ready[2];
    int over[2];
    char byte;
    pid_t child;
    double before;
    bool well;

    if (pipe(ready) != 0 || pipe(over) != 0 || (child = tool_fork()) < 0) {
        return false;
    }
    if (child == 0) {
        close(over[1]);
        _exit(accept_in_child(device, requester, ready[1], over[0]));
    }
    close(ready[1]);
    close(over[0]);
    well = tool_open(device, &requester->nic) && read(ready[0], &byte, 1) == 1;
    before = tool_resident_bytes();
    well = well && create(requester) && in_quarters(requester, bench_request, figures->connect_us);
    figures->vis = requester->count;
    figures->resident = (tool_resident_bytes() - before) / (double)figures->vis;
    well = well && in_quarters(requester, disconnect, figures->disconnect_us);
    close(over[1]);
    close(ready[0]);
    destroy(requester);
    return tool_wait_child(child, 600000) == 0 && well;
}

static void print_table(const struct figures *figures)
{
    const double *connect = figures->connect_us;
    const double *disconnect = figures->disconnect_us;

    printf("%-40s %10lu\n", "connected VIs of this process", figures->vis);
    printf("%-40s %10.0f\n", "resident bytes per VI", figures->resident);
    printf("%-40s %10.1f %10.1f %8.2f\n", "us to connect: first, last quarter, ratio", connect[0],
           connect[QUARTERS - 1], connect[QUARTERS - 1] / connect[0]);
    printf("%-40s %10.1f %10.1f %8.2f\n", "us to disconnect: the same", disconnect[0],
           disconnect[QUARTERS - 1], disconnect[QUARTERS - 1] / disconnect[0]);
}

static bool run(const char *device, unsigned long pairs, bool between, double limit)
{
    struct bench_end requester = {.name = "bench-connections", .count = pairs};
    struct figures figures = {.vis = 0};
    bool well;

    if (between) {
        well = measure_between(device, &requester, &figures);
    } else { /* the first pay for what all share: they are not counted */
        requester.count = WARM_UP;
        well = tool_open(device, &requester.nic) && measure_here(&requester, &figures);
        requester.count = pairs;
        well = well && measure_here(&requester, &figures);
    }
    if (requester.nic != NULL) {
        VipCloseNic(requester.nic);
    }
    if (well) {
        print_table(&figures);
        if (figures.resident > limit) {
            tool_complain("%.0f bytes per VI, more than %.0f", figures.resident, limit);
            well = false;
        }
    }
    return well;
}

static const struct option options[] = {
    {"device", required_argument, NULL, 'd'}, {"pairs", required_argument, NULL, 'n'},
    {"between", no_argument, NULL, 'b'},      {"limit", required_argument, NULL, 'l'},
    {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
};

int main(int argc, char **argv)
{
    const char *device = NULL;
    unsigned long pairs = DEFAULT_PAIRS;
    bool between = false;
    double limit = HUGE_VAL;
    int option;

    tool_name = "vipl-bench-connections";
    while ((option = getopt_long(argc, argv, "d:n:bl:h", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            device = optarg;
            break;
        case 'n':
            pairs = strtoul(optarg, NULL, 10);
            break;
        case 'b':
            between = true;
            break;
        case 'l':
            limit = strtod(optarg, NULL);
            break;
        case 'h':
            puts("usage: vipl-bench-connections [--device NAME] [--pairs N] [--between] [--limit BYTES]");
            return 0;
        default:
            return 2;
        }
    }
    if (pairs < QUARTERS || optind != argc) {
        return 2;
    }
    tool_catch_stop();
    bench_raise_limits();
    return run(device, pairs, between, limit) ? 0 : 1;
}
