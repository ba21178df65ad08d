/* SPDX-License-Identifier: MIT */
/*
 * What a completion queue over many connected VIs costs, beside one over few. Two NIC handles of
 * one device, each with pairs of connected VIs in this process; the receiving ones share a
 * completion queue. Messages of 8 bytes go one at a time: post, poll the queue until it is there,
 * reap, post the receive again. Three figures, interleaved: few VIs; the same number of VIs in use
 * among many; and all of the many in turn, where caches, the kernel's too, are cold.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pairs.h"
#include "tool_os.h"
#include "tool_text.h"
#include "tool_vipl.h"

#define DEFAULT_VIS 9000ul
#define FEW 9ul
#define ROUNDS 7
#define BYTES 8
#define SLOT (sizeof(VIP_DESCRIPTOR) + 64)

/* Connected pairs of one NIC handle. */
struct world {
    VIP_NIC_HANDLE nic;
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE *senders;
    VIP_VI_HANDLE *receivers;
    struct tool_mem receives; /* a descriptor and its bytes for each pair */
    struct tool_mem send;
    unsigned long pairs;
    const char *name; /* where the receivers wait */
};

static VIP_DESCRIPTOR *receive_of(const struct world *world, unsigned long pair)
{
    return (VIP_DESCRIPTOR *)(void *)(world->receives.base + pair * SLOT);
}

static bool post_receive(struct world *world, unsigned long pair)
{
    VIP_DESCRIPTOR *desc = receive_of(world, pair);

    tool_desc_local(desc, 0, desc + 1, world->receives.handle, BYTES);
    return bench_right("VipPostRecv", VipPostRecv(world->receivers[pair], desc, world->receives.handle));
}

/* ---- connecting ------------------------------------------------------------------------------ */

static bool connect_all(const struct world *world)
{
    const struct bench_end sending = {world->nic, world->name, world->senders, world->pairs};
    struct bench_end receiving = {world->nic, world->name, world->receivers, world->pairs};
    pthread_t acceptor;
    void *accepted = NULL;
    bool requested;

    if (pthread_create(&acceptor, NULL, bench_accept_thread, &receiving) != 0) {
        return false;
    }
    requested = bench_request(&sending, 0, sending.count);
    pthread_join(acceptor, &accepted);
    return requested && accepted != NULL;
}

/* ---- a world's begin and end ----------------------------------------------------------------- */

static bool create_pairs(struct world *world)
{
    VIP_VI_ATTRIBUTES attributes = {VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};

    for (unsigned long i = 0; i < world->pairs; i++) {
        if (!bench_right("VipCreateVi",
                         VipCreateVi(world->nic, &attributes, NULL, NULL, &world->senders[i])) ||
            !bench_right("VipCreateVi",
                         VipCreateVi(world->nic, &attributes, NULL, world->cq, &world->receivers[i])) ||
            !post_receive(world, i)) {
            return false;
        }
    }
    return true;
}

static bool create_world(struct world *world, const char *device, unsigned long pairs)
{
    world->pairs = pairs;
    world->senders = calloc(pairs, sizeof(VIP_VI_HANDLE));
    world->receivers = calloc(pairs, sizeof(VIP_VI_HANDLE));
    return world->senders != NULL && world->receivers != NULL && tool_open(device, &world->nic) &&
           tool_mem_create(world->nic, pairs * SLOT, false, false, &world->receives) &&
           tool_mem_create(world->nic, SLOT, false, false, &world->send) &&
           bench_right("VipCreateCQ", VipCreateCQ(world->nic, (VIP_ULONG)pairs, &world->cq)) &&
           create_pairs(world) && connect_all(world);
}

static void destroy_world(struct world *world)
{
    for (unsigned long i = 0; i < world->pairs && world->senders != NULL && world->receivers != NULL; i++) {
        tool_vi_destroy(world->senders[i]);
        tool_vi_destroy(world->receivers[i]);
    }
    if (world->cq != NULL) {
        VipDestroyCQ(world->cq);
    }
    tool_mem_destroy(&world->send);
    tool_mem_destroy(&world->receives);
    if (world->nic != NULL) {
        VipCloseNic(world->nic);
    }
    free(world->senders);
    free(world->receivers);
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool next_receive(struct world *world, unsigned long pair)
{
    VIP_VI_HANDLE vi = NULL;
    VIP_BOOLEAN receive = VIP_FALSE;
    VIP_DESCRIPTOR *desc = NULL;
    VIP_RETURN rc;

    do {
        rc = VipCQDone(world->cq, &vi, &receive);
    } while (rc == VIP_NOT_DONE && !tool_stop);
    if (!bench_right("VipCQDone", rc)) {
        return false;
    }
    if (vi != world->receivers[pair] || VipRecvDone(vi, &desc) != VIP_SUCCESS ||
        desc != receive_of(world, pair)) {
        tool_complain("the message did not come where it was sent");
        return false;
    }
    return post_receive(world, pair);
}

static bool exchange(struct world *world, unsigned long pair)
{
    VIP_DESCRIPTOR *desc = (VIP_DESCRIPTOR *)(void *)world->send.base;
    VIP_DESCRIPTOR *done = NULL;
    VIP_RETURN rc;

    tool_desc_local(desc, 0, desc + 1, world->send.handle, BYTES);
    if (!bench_right("VipPostSend", VipPostSend(world->senders[pair], desc, world->send.handle)) ||
        !next_receive(world, pair)) {
        return false;
    }
    do {
        rc = VipSendDone(world->senders[pair], &done);
    } while (rc == VIP_NOT_DONE);
    return bench_right("VipSendDone", rc);
}

/* ns of a message, over the first `used` pairs in an order that no prefetcher follows; below 0: it
 * failed. */
static double measure(struct world *world, unsigned long used, unsigned long messages)
{
    uint64_t start = tool_now_ns();
    unsigned long pair = 0;

    for (unsigned long i = 0; i < messages; i++) {
        pair = (pair * 1103515245 + 12345) % 2147483648ul;
        if (!exchange(world, pair % used)) {
            return -1;
        }
    }
    return (double)(tool_now_ns() - start) / (double)messages;
}

static double median(double *values)
{
    for (int i = 1; i < ROUNDS; i++) {
        for (int j = i; j > 0 && values[j - 1] > values[j]; j--) {
            double larger = values[j - 1];

            values[j - 1] = values[j];
            values[j] = larger;
        }
    }
    return values[ROUNDS / 2];
}

static bool compare(struct world *few, struct world *many, unsigned long messages)
{
    double took[3][ROUNDS];
    double ratio[3][ROUNDS];
    const char *const names[3] = {"few", "few in use of many", "all of many in turn"};

    for (int round = 0; round < ROUNDS; round++) {
        took[0][round] = measure(few, FEW, messages);
        took[1][round] = measure(many, FEW, messages);
        took[2][round] = measure(many, many->pairs, messages);
        for (int i = 0; i < 3; i++) {
            if (took[i][round] < 0) {
                return false;
            }
            ratio[i][round] = took[i][round] / took[0][round];
        }
    }
    printf("%-22s %10s %10s %8s\n", "", "VIs", "ns/message", "ratio");
    for (int i = 0; i < 3; i++) {
        printf("%-22s %10lu %10.0f %8.2f\n", names[i], i == 0 ? FEW : many->pairs, median(took[i]),
               median(ratio[i]));
    }
    return true;
}

static const struct option options[] = {
    {"device", required_argument, NULL, 'd'},
    {"vis", required_argument, NULL, 'n'},
    {"messages", required_argument, NULL, 'm'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

int main(int argc, char **argv)
{
    struct world few = {.name = "few"};
    struct world many = {.name = "many"};
    const char *device = NULL;
    unsigned long vis = DEFAULT_VIS;
    unsigned long messages = 20000;
    bool well;
    int option;

    tool_name = "vipl-bench-cq-scale";
    while ((option = getopt_long(argc, argv, "d:n:m:h", options, NULL)) != -1) {
        switch (option) {
        case 'd':
            device = optarg;
            break;
        case 'n':
            vis = strtoul(optarg, NULL, 10);
            break;
        case 'm':
            messages = strtoul(optarg, NULL, 10);
            break;
        case 'h':
            puts("usage: vipl-bench-cq-scale [--device NAME] [--vis N] [--messages N]");
            return 0;
        default:
            return 2;
        }
    }
    if (vis < FEW || messages == 0 || optind != argc) {
        return 2;
    }
    tool_catch_stop();
    bench_raise_limits();
    well =
        create_world(&few, device, FEW) && create_world(&many, device, vis) && compare(&few, &many, messages);
    destroy_world(&many);
    destroy_world(&few);
    return well ? 0 : 1;
}
