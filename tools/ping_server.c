/* SPDX-License-Identifier: MIT */
/*
 * vipl-ping's server, and what both ends are made of: one VI, a few receives between guard bytes,
 * one send buffer, all in one region. One client at a time; one that is silent for the timeout, or
 * dies, makes room for the next.
 */
#include "ping.h"

#include <string.h>

#include "tool_os.h"
#include "tool_pattern.h"
#include "tool_text.h"

static size_t slot_bytes(uint32_t size)
{
    return (tool_guarded_size(size) + 63) & ~(size_t)63;
}

bool ping_end_create(struct ping_end *end, VIP_VI_ATTRIBUTES *attributes)
{
    size_t slot = slot_bytes(end->size);
    size_t head = sizeof(VIP_DESCRIPTOR) * (PING_RECEIVES + 1);
    VIP_RETURN rc;

    if (!tool_mem_create(end->nic, head + slot * (PING_RECEIVES + 1), false, false, &end->mem)) {
        return false;
    }
    rc = VipCreateVi(end->nic, attributes, NULL, NULL, &end->vi);
    if (rc != VIP_SUCCESS) {
        tool_complain_rc("VipCreateVi", rc);
        return false;
    }
    end->receives = (VIP_DESCRIPTOR *)(void *)end->mem.base;
    end->send = end->receives + PING_RECEIVES;
    end->out = tool_guarded_init(end->mem.base + head + slot * PING_RECEIVES, end->size);
    for (size_t i = 0; i < PING_RECEIVES; i++) {
        unsigned char *in = tool_guarded_init(end->mem.base + head + slot * i, end->size);

        tool_desc_local(&end->receives[i], 0, in, end->mem.handle, end->size);
        rc = VipPostRecv(end->vi, &end->receives[i], end->mem.handle);
        if (rc != VIP_SUCCESS) {
            tool_complain_rc("VipPostRecv", rc);
            return false;
        }
    }
    return true;
}

void ping_end_destroy(struct ping_end *end)
{
    tool_vi_destroy(end->vi);
    tool_mem_destroy(&end->mem);
    end->vi = NULL;
}

unsigned char *ping_received(const VIP_DESCRIPTOR *desc)
{
    return (unsigned char *)(uintptr_t)desc->DS[0].Local.Data.AddressBits;
}

/* Wait for one completion in slices, so that a stop is seen; VIP_INTERRUPTED after a stop. */
VIP_RETURN ping_wait(struct ping_end *end, bool receive, uint32_t timeout_ms, VIP_DESCRIPTOR **desc)
{
    uint64_t deadline = tool_now_ns() + (uint64_t)timeout_ms * 1000000;

    while (!tool_stop) {
        uint64_t now = tool_now_ns();
        uint64_t left = deadline > now ? (deadline - now) / 1000000 + 1 : 0;
        VIP_ULONG slice = left < TOOL_SLICE_MS ? (VIP_ULONG)left : TOOL_SLICE_MS;
        VIP_RETURN rc = receive ? VipRecvWait(end->vi, slice, desc) : VipSendWait(end->vi, slice, desc);

        if (rc != VIP_INTERRUPTED && (rc != VIP_TIMEOUT || left == 0)) {
            return rc;
        }
    }
    return VIP_INTERRUPTED;
}

/* Send `length` bytes of the send buffer with immediate data, and reap the send. */
VIP_RETURN ping_send(struct ping_end *end, uint32_t length, uint32_t immediate)
{
    VIP_DESCRIPTOR *done;
    VIP_RETURN rc;

    tool_desc_local(end->send, VIP_CONTROL_IMMEDIATE, end->out, end->mem.handle, length);
    end->send->CS.ImmediateData = immediate;
    rc = VipPostSend(end->vi, end->send, end->mem.handle);
    return rc == VIP_SUCCESS ? ping_wait(end, false, end->timeout_ms, &done) : rc;
}

VIP_RETURN ping_repost(struct ping_end *end, VIP_DESCRIPTOR *desc)
{
    desc->CS.Length = end->size;
    return VipPostRecv(end->vi, desc, end->mem.handle);
}

/* Whether this server has a terminal, or a log, of its own. */
static bool says(const struct ping_options *options)
{
    return options->role == ROLE_SERVER && !options->quiet;
}

/* Check one message, echo it, say by the immediate data whether it was right. */
static VIP_RETURN serve_message(struct ping_end *end, VIP_DESCRIPTOR *desc)
{
    unsigned char *in = ping_received(desc);
    uint32_t length = desc->CS.Length <= end->size ? desc->CS.Length : end->size;
    uint32_t seed = desc->CS.ImmediateData;
    bool right = tool_pattern_check(in, length, seed) == TOOL_ALL_RIGHT && tool_guarded_intact(in, end->size);
    VIP_RETURN rc;

    memcpy(end->out, in, length);
    rc = ping_repost(end, desc);
    return rc == VIP_SUCCESS ? ping_send(end, length, right ? seed : ~seed) : rc;
}

/* A client that has lost an echo waits for the timeout before it goes on; an unreliable one may
 * lose some in a row. */
static uint32_t patience(const struct ping_end *end, const VIP_VI_ATTRIBUTES *attributes)
{
    return end->timeout_ms * (attributes->ReliabilityLevel == VIP_SERVICE_UNRELIABLE ? 10 : 2);
}

/* Until the client goes, says nothing for `silence_ms`, or a stop. Returns the messages. */
static uint64_t serve_client(struct ping_end *end, uint32_t silence_ms)
{
    VIP_DESCRIPTOR *desc;
    uint64_t count = 0;

    while (ping_wait(end, true, silence_ms, &desc) == VIP_SUCCESS &&
           serve_message(end, desc) == VIP_SUCCESS) {
        count++;
    }
    return count;
}

static void serve_request(const struct ping_options *options, VIP_NIC_HANDLE nic, VIP_CONN_HANDLE request,
                          VIP_VI_ATTRIBUTES *attributes)
{
    struct ping_end end = {.nic = nic, .timeout_ms = (uint32_t)options->timeout_ms};
    VIP_RETURN rc = VIP_ERROR_RESOURCE;
    uint64_t count;

    attributes->Ptag = NULL;
    if (attributes->MaxTransferSize <= PING_MAX_SIZE) {
        end.size = (uint32_t)attributes->MaxTransferSize;
        if (ping_end_create(&end, attributes)) {
            rc = VipConnectAccept(request, end.vi);
        }
    }
    if (rc == VIP_SUCCESS) {
        count = serve_client(&end, patience(&end, attributes));
        if (says(options)) {
            printf("client gone after %llu messages\n", (unsigned long long)count);
            fflush(stdout);
        }
    } else if (rc != VIP_TIMEOUT) {
        VipConnectReject(request);
    }
    ping_end_destroy(&end);
}

static VIP_RETURN serve_next(const void *its_options, VIP_NIC_HANDLE nic, struct tool_address *local)
{
    const struct ping_options *options = its_options;
    uint32_t timeout_ms = options->once ? (uint32_t)options->timeout_ms : UINT32_MAX;
    struct tool_address remote;
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE request;
    VIP_RETURN rc = tool_connect_wait(nic, local, timeout_ms, &remote, &attributes, &request);

    if (rc == VIP_SUCCESS && says(options)) {
        tool_say_who(&remote, &attributes);
    }
    if (rc == VIP_SUCCESS) {
        serve_request(options, nic, request, &attributes);
    }
    return rc;
}

int ping_run_server(const struct ping_options *options)
{
    return tool_serve(options->device, options->discriminator, options->role == ROLE_SERVER, options->once,
                      serve_next, options);
}
