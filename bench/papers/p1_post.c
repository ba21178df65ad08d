/* SPDX-License-Identifier: MIT */
/*
 * P1.10: what VipPostSend() costs with the system call and without it, because an earlier send is
 * not complete and the post only queues; and VipPostRecv(), which never makes one here. Two VIs of
 * this process over tcp, 8 bytes, in wall time. The clock's own time is taken off.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ends.h"
#include "table.h"
#include "tool_os.h"
#include "tool_text.h"
#include "tool_vipl.h"

enum { BYTES = 8, BURST = 32, ROUNDS = 400 };
#define SLOT (sizeof(VIP_DESCRIPTOR) + 64)

/* Two connected VIs, each of a NIC handle of its own. */
struct samples {
    double with_call[ROUNDS];
    double without_call[ROUNDS];
    double receive[ROUNDS];
    unsigned count;
};

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static double clock_us(void)
{
    double begun = now_us();

    for (int i = 0; i < 1000; i++) {
        (void)now_us();
    }
    return (now_us() - begun) / 1001;
}

static VIP_DESCRIPTOR *slot(const struct ends *pair, int end, unsigned i)
{
    VIP_DESCRIPTOR *desc = (VIP_DESCRIPTOR *)(void *)(pair->memory[end].base + i * SLOT);

    tool_desc_local(desc, 0, desc + 1, pair->memory[end].handle, BYTES);
    return desc;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static bool create(struct ends *pair, const char *device)
{
    VIP_VI_ATTRIBUTES attributes = {VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};

    for (int end = 0; end < 2; end++) {
        if (!tool_open(device, &pair->nic[end]) ||
            !tool_mem_create(pair->nic[end], BURST * SLOT, false, false, &pair->memory[end]) ||
            !ends_right("VipCreateVi",
                        VipCreateVi(pair->nic[end], &attributes, NULL, NULL, &pair->vi[end]))) {
            return false;
        }
    }
    return true;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static bool reap(VIP_RETURN (*done)(VIP_VI_HANDLE, VIP_DESCRIPTOR **), VIP_VI_HANDLE vi, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        VIP_DESCRIPTOR *desc;
        VIP_RETURN rc;

        do {
            rc = done(vi, &desc);
        } while (rc == VIP_NOT_DONE);
        if (!ends_right("a completion", rc)) {
            return false;
        }
    }
    return true;
}

/* A burst: its first post makes the call, the others queue. */
static bool measure_once(struct ends *pair, struct samples *out)
{
    double begun = now_us();
    unsigned n = out->count;

    for (unsigned i = 0; i < BURST; i++) {
        if (!ends_right("VipPostRecv", VipPostRecv(pair->vi[1], slot(pair, 1, i), pair->memory[1].handle))) {
            return false;
        }
    }
    out->receive[n] = (now_us() - begun) / BURST;
    begun = now_us();
    if (!ends_right("VipPostSend", VipPostSend(pair->vi[0], slot(pair, 0, 0), pair->memory[0].handle))) {
        return false;
    }
    out->with_call[n] = now_us() - begun;
    begun = now_us();
    for (unsigned i = 1; i < BURST; i++) {
        if (!ends_right("VipPostSend", VipPostSend(pair->vi[0], slot(pair, 0, i), pair->memory[0].handle))) {
            return false;
        }
    }
    out->without_call[n] = (now_us() - begun) / (BURST - 1);
    out->count++;
    return reap(VipSendDone, pair->vi[0], BURST) && reap(VipRecvDone, pair->vi[1], BURST);
}

static void show(struct samples *samples, bool json)
{
    double clock = clock_us();
    double with_call = table_percentile(samples->with_call, samples->count, 50) - clock;
    double without = table_percentile(samples->without_call, samples->count, 50) - clock / (BURST - 1);
    double receive = table_percentile(samples->receive, samples->count, 50) - clock / BURST;

    table_begin("P1.10: a post with and without the system call", TABLE_WALL, "us", json);
    table_row("VipPostSend, with the call", 29.1, with_call, NULL, TABLE_NONE, TABLE_NONE);
    table_row("VipPostSend, without", 1.5, without, "VipPostSend, with the call", 1.5 / 29.1,
              without / with_call);
    table_row("VipPostRecv", 1.2, receive, "VipPostSend, with the call", 1.2 / 29.1, receive / with_call);
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"device", required_argument, NULL, 'd'}, {"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
    static struct samples samples;
    struct ends pair;
    const char *device = "tcp:127.0.0.1";
    bool json = false;
    int option;
    bool good;

    tool_name = "vipl-bench-p1-post";
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option != 'd' && option != 'j') {
            return TOOL_USAGE;
        }
        device = option == 'd' ? optarg : device;
        json = json || option == 'j';
    }
    memset(&pair, 0, sizeof(pair));
    good = create(&pair, device) && ends_connect(&pair);
    while (good && samples.count < ROUNDS) {
        good = measure_once(&pair, &samples);
    }
    if (good) {
        show(&samples, json);
    }
    ends_destroy(&pair);
    return good ? TOOL_OK : TOOL_FAILED;
}
