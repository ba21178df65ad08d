/* SPDX-License-Identifier: MIT */
/*
 * Both VIs in this process and in one thread: what the library itself costs, with no other process
 * to wait for. One message is: post the receive, post the send, reap both (an RDMA operation: post,
 * reap). A sample is the mean of BATCH messages, since reading the clock costs as much as a
 * message.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

#include "tool_os.h"
#include "tool_pattern.h"
#include "tool_text.h"

#define BATCH 32

/* Completions come at once on some devices and later on others. */
#define MAX_SPINS 100000000u

struct perf_local {
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE from;
    VIP_VI_HANDLE to;
    struct tool_mem mem; /* two descriptors, the source, the destination */
    VIP_DESCRIPTOR *send;
    VIP_DESCRIPTOR *receive;
    unsigned char *out;
    unsigned char *in;
    uint32_t room;
};

static bool create_vis(struct perf_local *local, const struct perf_options *options)
{
    VIP_VI_ATTRIBUTES attributes;
    VIP_RETURN rc;

    memset(&attributes, 0, sizeof(attributes));
    attributes.ReliabilityLevel = options->level;
    attributes.MaxTransferSize = local->room;
    attributes.EnableRdmaWrite = VIP_TRUE;
    attributes.EnableRdmaRead = (options->ops & (1u << PERF_READ)) != 0;
    rc = VipCreateVi(local->nic, &attributes, NULL, NULL, &local->from);
    if (rc == VIP_SUCCESS) {
        rc = VipCreateVi(local->nic, &attributes, NULL, NULL, &local->to);
    }
    if (rc != VIP_SUCCESS) {
        tool_complain_rc("VipCreateVi", rc);
    }
    return rc == VIP_SUCCESS;
}

/* Peer to peer, so that one thread can do both sides. */
static bool connect_vis(struct perf_local *local, const struct perf_options *options)
{
    VIP_ULONG timeout = (VIP_ULONG)options->timeout_ms;
    struct tool_address one;
    struct tool_address other;
    VIP_RETURN rc;

    if (!tool_address_local(local->nic, "perf-one", 8, &one) ||
        !tool_address_local(local->nic, "perf-other", 10, &other)) {
        return false;
    }
    rc = VipConnectPeerRequest(local->from, &one.u.net, &other.u.net, timeout);
    if (rc == VIP_SUCCESS) {
        rc = VipConnectPeerRequest(local->to, &other.u.net, &one.u.net, timeout);
    }
    if (rc == VIP_SUCCESS) {
        rc = VipConnectPeerWait(local->from, NULL);
    }
    if (rc == VIP_SUCCESS) {
        rc = VipConnectPeerWait(local->to, NULL);
    }
    if (rc != VIP_SUCCESS) {
        tool_complain_rc("connecting two VIs of this process", rc);
    }
    return rc == VIP_SUCCESS;
}

struct perf_local *perf_local_create(const struct perf_options *options)
{
    struct perf_local *local = calloc(1, sizeof(*local));

    if (local == NULL || !tool_open(options->device, &local->nic)) {
        free(local);
        return NULL;
    }
    local->room = ((uint32_t)options->max_size + 63) / 64 * 64;
    if (!tool_mem_create(local->nic, 2 * sizeof(VIP_DESCRIPTOR) + 2 * (size_t)local->room, true,
                         (options->ops & (1u << PERF_READ)) != 0, &local->mem) ||
        !create_vis(local, options) || !connect_vis(local, options)) {
        perf_local_destroy(local);
        return NULL;
    }
    local->send = (VIP_DESCRIPTOR *)(void *)local->mem.base;
    local->receive = local->send + 1;
    local->out = local->mem.base + 2 * sizeof(VIP_DESCRIPTOR);
    local->in = local->out + local->room;
    return local;
}

VIP_NIC_HANDLE perf_local_nic(const struct perf_local *local)
{
    return local->nic;
}

void perf_local_destroy(struct perf_local *local)
{
    if (local == NULL) {
        return;
    }
    tool_vi_destroy(local->from);
    tool_vi_destroy(local->to);
    tool_mem_destroy(&local->mem);
    VipCloseNic(local->nic);
    free(local);
}

/* ---- one message ----------------------------------------------------------------------------- */

static VIP_RETURN reap_send(struct perf_local *local)
{
    VIP_DESCRIPTOR *desc;
    VIP_RETURN rc;
    uint32_t spins = 0;

    while ((rc = VipSendDone(local->from, &desc)) == VIP_NOT_DONE && ++spins < MAX_SPINS) {
        tool_relax();
    }
    return rc;
}

static VIP_RETURN reap_receive(struct perf_local *local)
{
    VIP_DESCRIPTOR *desc;
    VIP_RETURN rc;
    uint32_t spins = 0;

    while ((rc = VipRecvDone(local->to, &desc)) == VIP_NOT_DONE && ++spins < MAX_SPINS) {
        tool_relax();
    }
    return rc;
}

static VIP_RETURN one_send(struct perf_local *local, uint32_t size)
{
    VIP_RETURN rc;

    local->receive->CS.Length = size;
    rc = VipPostRecv(local->to, local->receive, local->mem.handle);
    if (rc == VIP_SUCCESS) {
        rc = VipPostSend(local->from, local->send, local->mem.handle);
    }
    if (rc == VIP_SUCCESS) {
        rc = reap_send(local);
    }
    return rc == VIP_SUCCESS ? reap_receive(local) : rc;
}

static VIP_RETURN one_rdma(struct perf_local *local)
{
    VIP_RETURN rc = VipPostSend(local->from, local->send, local->mem.handle);

    return rc == VIP_SUCCESS ? reap_send(local) : rc;
}

static void prepare(struct perf_local *local, const struct perf_run *run)
{
    VIP_MEM_HANDLE handle = local->mem.handle;

    tool_desc_local(local->receive, 0, local->in, handle, run->size);
    if (run->op == PERF_SEND) {
        tool_desc_local(local->send, 0, local->out, handle, run->size);
    } else {
        /* a write goes from `out` to `in`; a read fetches `out` into `in` */
        bool write = run->op == PERF_WRITE;
        unsigned char *remote = write ? local->in : local->out;
        unsigned char *here = write ? local->out : local->in;

        tool_desc_rdma(local->send, write ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_RDMAREAD,
                       (uint64_t)(uintptr_t)remote, handle, here, handle, run->size);
    }
}

static VIP_RETURN batch(struct perf_local *local, const struct perf_run *run, struct perf_tally *tally)
{
    uint64_t start = tool_now_ns();
    VIP_RETURN rc = VIP_SUCCESS;
    uint64_t took;

    for (unsigned i = 0; i < BATCH && rc == VIP_SUCCESS; i++) {
        rc = run->op == PERF_SEND ? one_send(local, run->size) : one_rdma(local);
    }
    took = tool_now_ns() - start;
    tally->elapsed_ns += took;
    perf_hist_add(tally->hist, took);
    return rc;
}

/* A batch of one message with new contents, checked. */
static VIP_RETURN verified(struct perf_local *local, const struct perf_run *run, uint64_t number,
                           struct perf_tally *tally)
{
    uint32_t seed = perf_seed(true, number);
    uint64_t start;
    VIP_RETURN rc = VIP_SUCCESS;

    tool_pattern_fill(local->out, run->size, seed);
    start = tool_now_ns();
    rc = run->op == PERF_SEND ? one_send(local, run->size) : one_rdma(local);
    tally->elapsed_ns += tool_now_ns() - start;
    perf_hist_add(tally->hist, (tool_now_ns() - start));
    tally->wrong += tool_pattern_check(local->in, run->size, seed) != TOOL_ALL_RIGHT;
    return rc;
}

VIP_RETURN perf_local_run(struct perf_local *local, const struct perf_run *run, struct perf_tally *tally)
{
    VIP_RETURN rc = VIP_SUCCESS;

    prepare(local, run);
    tally->window = run->verify ? 1 : BATCH;
    for (uint64_t done = 0; done < run->count && rc == VIP_SUCCESS; done += tally->window) {
        if (tool_stop) {
            return VIP_INTERRUPTED;
        }
        rc = run->verify ? verified(local, run, done + 1, tally) : batch(local, run, tally);
    }
    if (rc != VIP_SUCCESS) {
        tool_complain_rc("a transfer between two VIs of this process", rc);
    }
    return rc;
}
