/* SPDX-License-Identifier: MIT */
/*
 * What an idle VI costs: creates many on one NIC handle, and reports the memory they added to the
 * process (resident pages, and the heap where the C library counts it) and the time to create and
 * to destroy one. Exits with 1 if a VI costs more than the limit.
 */
#include <getopt.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vipl/vipl.h>

#include "tool_os.h"

#define DEFAULT_VIS 65536ul
#define DEFAULT_LIMIT 2048.0
#define WARMUP_VIS 64ul

struct result {
    unsigned long vis;
    double resident; /* bytes a VI */
    double heap;     /* bytes a VI; below 0: not known */
    double left;     /* resident bytes a VI after all are destroyed */
    double create_ns;
    double destroy_ns;
};

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double heap_bytes(void)
{
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    struct mallinfo2 info = mallinfo2();

    return (double)info.uordblks + (double)info.hblkhd;
#else
    return -1;
#endif
}

static bool create(VIP_NIC_HANDLE nic, VIP_VI_HANDLE *vis, unsigned long count)
{
    VIP_VI_ATTRIBUTES attributes = {VIP_SERVICE_RELIABLE_DELIVERY, 32768, NULL, NULL, VIP_FALSE, VIP_FALSE};

    for (unsigned long i = 0; i < count; i++) {
        VIP_RETURN rc = VipCreateVi(nic, &attributes, NULL, NULL, &vis[i]);

        if (rc != VIP_SUCCESS) {
            fprintf(stderr, "vi_memory: VI %lu of %lu: code %d\n", i + 1, count, (int)rc);
            return false;
        }
    }
    return true;
}

static bool destroy(VIP_VI_HANDLE *vis, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++) {
        if (VipDestroyVi(vis[i]) != VIP_SUCCESS) {
            return false;
        }
    }
    return true;
}

/* The first VIs pay for what all share (threads' arenas, tables); they are not counted. */
static bool measure(VIP_NIC_HANDLE nic, VIP_VI_HANDLE *vis, struct result *result)
{
    double count = (double)result->vis;
    double resident;
    double heap;
    double start;
    bool right;

    if (!create(nic, vis, WARMUP_VIS) || !destroy(vis, WARMUP_VIS)) {
        return false;
    }
    resident = tool_resident_bytes();
    heap = heap_bytes();
    start = now_ns();
    right = create(nic, vis, result->vis);
    result->create_ns = (now_ns() - start) / count;
    result->resident = (tool_resident_bytes() - resident) / count;
    result->heap = heap < 0 ? -1 : (heap_bytes() - heap) / count;
    start = now_ns();
    right = right && destroy(vis, result->vis);
    result->destroy_ns = (now_ns() - start) / count;
    result->left = (tool_resident_bytes() - resident) / count;
    return right;
}

static void print_table(const struct result *result)
{
    printf("%-36s %10lu\n", "VIs", result->vis);
    printf("%-36s %10.0f\n", "resident bytes a VI", result->resident);
    if (result->heap >= 0) {
        printf("%-36s %10.0f\n", "heap bytes a VI", result->heap);
    }
    printf("%-36s %10.0f\n", "resident bytes a VI when destroyed", result->left);
    printf("%-36s %10.0f\n", "ns to create a VI", result->create_ns);
    printf("%-36s %10.0f\n", "ns to destroy a VI", result->destroy_ns);
}

static void print_json(const struct result *result, double limit)
{
    printf("{\"schema\": 1, \"bench\": \"vi_memory\", \"vis\": %lu, \"resident_bytes_per_vi\": %.0f, "
           "\"heap_bytes_per_vi\": ",
           result->vis, result->resident);
    if (result->heap >= 0) {
        printf("%.0f", result->heap);
    } else {
        printf("null");
    }
    printf(", \"resident_bytes_per_destroyed_vi\": %.0f, \"create_ns\": %.0f, \"destroy_ns\": %.0f, "
           "\"limit_bytes_per_vi\": %.0f}\n",
           result->left, result->create_ns, result->destroy_ns, limit);
}

/* The larger of what the kernel and what the C library say. */
static double bytes_of_vi(const struct result *result)
{
    return result->heap > result->resident ? result->heap : result->resident;
}

static int run(const char *device, unsigned long count, double limit, bool json)
{
    struct result result = {.vis = count};
    VIP_VI_HANDLE *vis = malloc((count > WARMUP_VIS ? count : WARMUP_VIS) * sizeof(*vis));
    VIP_NIC_HANDLE nic = NULL;
    bool right;

    if (vis == NULL || VipOpenNic(device, &nic) != VIP_SUCCESS) {
        fprintf(stderr, "vi_memory: no memory, or the device does not open\n");
        free(vis);
        return 1;
    }
    memset(vis, 0xff, count * sizeof(*vis)); /* resident before it is measured */
    right = measure(nic, vis, &result);
    VipCloseNic(nic);
    free(vis);
    if (!right) {
        return 1;
    }
    if (json) {
        print_json(&result, limit);
    } else {
        print_table(&result);
    }
    if (bytes_of_vi(&result) > limit) {
        fprintf(stderr, "vi_memory: %.0f bytes a VI, more than %.0f\n", bytes_of_vi(&result), limit);
        return 1;
    }
    return 0;
}

static const struct option options[] = {
    {"device", required_argument, NULL, 'd'}, {"vis", required_argument, NULL, 'n'},
    {"limit", required_argument, NULL, 'l'},  {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
};

int main(int argc, char **argv)
{
    const char *device = NULL;
    unsigned long count = DEFAULT_VIS;
    double limit = DEFAULT_LIMIT;
    bool json = false;
    int option;

    while ((option = getopt_long(argc, argv, "d:n:l:jh", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            device = optarg;
            break;
        case 'n':
            count = strtoul(optarg, NULL, 10);
            break;
        case 'l':
            limit = strtod(optarg, NULL);
            break;
        case 'j':
            json = true;
            break;
        case 'h':
            puts("usage: vipl-bench-vi-memory [--device NAME] [--vis N] [--limit BYTES] [--json]");
            return 0;
        default:
            return 2;
        }
    }
    return count > 0 && optind == argc ? run(device, count, limit, json) : 2;
}
