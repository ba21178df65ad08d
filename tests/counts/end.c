/* SPDX-License-Identifier: MIT */
/* One end of a connection: its memory, its VI, and how it is connected. */
#include "counts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool_text.h"

enum { BUFFER_AT = 2 * COUNTS_MAX_IN_FLIGHT * sizeof(VIP_DESCRIPTOR) };

bool counts_right(const char *what, VIP_RETURN rc)
{
    if (rc != VIP_SUCCESS) {
        tool_complain_rc(what, rc);
    }
    return rc == VIP_SUCCESS;
}

bool counts_say(int line, const void *bytes, size_t length)
{
    return write(line, bytes, length) == (ssize_t)length;
}

bool counts_hear(int line, void *bytes, size_t length)
{
    ssize_t got;

    do {
        got = read(line, bytes, length);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)length; /* a packet socket: whole, or not at all */
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool allocate(const struct counts_plan *plan, size_t length, unsigned char **base)
{
    VIP_PVOID address = NULL;

    if (plan->shared_memory || plan->shareable) {
        if (!counts_right("VipxAllocShared", VipxAllocShared((VIP_ULONG)length, &address))) {
            return false;
        }
    } else if (posix_memalign(&address, 65536, length) != 0) {
        tool_complain("no memory");
        return false;
    }
    memset(address, 0, length);
    *base = address;
    return true;
}

static bool create_memory(struct counts_end *end)
{
    VIP_MEM_ATTRIBUTES attributes = {NULL, VIP_TRUE, VIP_TRUE};
    struct counts_memory *memory = &end->memory;
    size_t room = ((size_t)end->plan->size + 4095) / 4096 * 4096;
    size_t length = BUFFER_AT + 2 * room;

    if (!allocate(end->plan, length, &memory->base)) {
        return false;
    }
    memory->sends = (VIP_DESCRIPTOR *)(void *)memory->base;
    memory->receives = memory->sends + COUNTS_MAX_IN_FLIGHT;
    memory->out = memory->base + BUFFER_AT;
    memory->in = memory->out + room;
    return counts_right("VipRegisterMem", VipRegisterMem(end->nic, memory->base, (VIP_ULONG)length,
                                                         &attributes, &memory->handle));
}

bool counts_post_receives(struct counts_end *end)
{
    struct counts_memory *memory = &end->memory;

    for (uint32_t i = 0; i < end->plan->in_flight; i++) {
        tool_desc_local(&memory->receives[i], 0, memory->in, memory->handle, end->plan->size);
        if (!counts_right("VipPostRecv", VipPostRecv(end->vi, &memory->receives[i], memory->handle))) {
            return false;
        }
    }
    return true;
}

void counts_write_sends(struct counts_end *end)
{
    struct counts_memory *memory = &end->memory;
    const struct counts_remote *remote = &end->remote;
    uint32_t size = end->plan->size;

    for (uint32_t i = 0; i < end->plan->in_flight; i++) {
        VIP_DESCRIPTOR *desc = &memory->sends[i];

        if (end->plan->op == COUNTS_WRITE || end->plan->op == COUNTS_PING_PONG) {
            tool_desc_rdma(desc, VIP_CONTROL_OP_RDMAWRITE, remote->in, remote->handle, memory->out,
                           memory->handle, size);
        } else if (end->plan->op == COUNTS_READ) {
            tool_desc_rdma(desc, VIP_CONTROL_OP_RDMAREAD, remote->out, remote->handle, memory->in,
                           memory->handle, size);
        } else {
            tool_desc_local(desc, 0, memory->out, memory->handle, size);
        }
    }
}

/* ---- the VI ---------------------------------------------------------------------------------- */

bool counts_end_create(const struct counts_plan *plan, VIP_NIC_HANDLE nic, struct counts_end *end)
{
    VIP_VI_ATTRIBUTES attributes;

    VIP_ULONG flags = (plan->shareable ? VIPX_SHAREABLE : 0) | (plan->waits_itself ? VIPX_INLINE : 0);

    memset(end, 0, sizeof(*end));
    end->plan = plan;
    end->nic = nic;
    memset(&attributes, 0, sizeof(attributes));
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = plan->size;
    attributes.EnableRdmaWrite = VIP_TRUE;
    attributes.EnableRdmaRead = VIP_TRUE;
    if (nic == NULL && !counts_right("VipxOpenNic", VipxOpenNic(plan->device, flags, &end->nic))) {
        return false;
    }
    if (plan->through_cq &&
        !counts_right("VipCreateCQ", VipCreateCQ(end->nic, 4 * COUNTS_MAX_IN_FLIGHT, &end->cq))) {
        return false;
    }
    return counts_right("VipCreateVi", VipCreateVi(end->nic, &attributes, end->cq, end->cq, &end->vi)) &&
           create_memory(end);
}

static void show_memory(const struct counts_memory *memory, struct counts_remote *to)
{
    to->in = (uint64_t)(uintptr_t)memory->in;
    to->out = (uint64_t)(uintptr_t)memory->out;
    to->handle = memory->handle;
}

/* Sleeps a moment, for both kinds of completions: what is counted later must not cost more for
 * it. */
static bool wait_in_vain(struct counts_end *end)
{
    VIP_DESCRIPTOR *desc;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_receive;

    if (end->plan->op == COUNTS_CONNECT) {
        return true;
    }
    if (end->cq != NULL) {
        return VipCQWait(end->cq, 1, &vi, &is_receive) == VIP_TIMEOUT;
    }
    return VipSendWait(end->vi, 1, &desc) == VIP_TIMEOUT && VipRecvWait(end->vi, 1, &desc) == VIP_TIMEOUT;
}

/* ---- connecting ------------------------------------------------------------------------------ */

bool counts_connect_both(struct counts_end *one, struct counts_end *other)
{
    struct tool_address here;
    struct tool_address there;

    show_memory(&one->memory, &other->remote);
    show_memory(&other->memory, &one->remote);
    return tool_address_local(one->nic, "one", 3, &here) &&
           tool_address_local(other->nic, "other", 5, &there) &&
           counts_right("VipConnectPeerRequest",
                        VipConnectPeerRequest(one->vi, &here.u.net, &there.u.net, COUNTS_TIMEOUT_MS)) &&
           counts_right("VipConnectPeerRequest",
                        VipConnectPeerRequest(other->vi, &there.u.net, &here.u.net, COUNTS_TIMEOUT_MS)) &&
           counts_right("VipConnectPeerWait", VipConnectPeerWait(one->vi, NULL)) &&
           counts_right("VipConnectPeerWait", VipConnectPeerWait(other->vi, NULL)) && wait_in_vain(one) &&
           wait_in_vain(other);
}

static bool accept_request(struct counts_end *end, struct tool_address *listen)
{
    VIP_VI_ATTRIBUTES theirs;
    struct tool_address remote;
    VIP_CONN_HANDLE request;

    return counts_right("VipConnectWait",
                        tool_connect_wait(end->nic, listen, COUNTS_TIMEOUT_MS, &remote, &theirs, &request)) &&
           counts_right("VipConnectAccept", VipConnectAccept(request, end->vi));
}

static bool make_request(struct counts_end *end, struct tool_address *to)
{
    VIP_VI_ATTRIBUTES theirs;
    struct tool_address here;

    return tool_address_local(end->nic, "first", 5, &here) &&
           counts_right("VipConnectRequest",
                        VipConnectRequest(end->vi, &here.u.net, &to->u.net, COUNTS_TIMEOUT_MS, &theirs));
}

bool counts_connect(struct counts_end *end)
{
    const struct counts_plan *plan = end->plan;
    struct tool_address address;

    if (!tool_address_local(end->nic, plan->discriminator, strlen(plan->discriminator), &address)) {
        return false;
    }
    return (plan->second ? accept_request(end, &address) : make_request(end, &address)) && wait_in_vain(end);
}
