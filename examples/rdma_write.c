/* SPDX-License-Identifier: MIT */
/*
 * RDMA Write: the server tells the client where its memory is; the client writes there, without any
 * call of the server, and the last write carries immediate data, which completes a receive of the
 * server's.
 */
#include "ends.h"
#include "example.h"

enum { LINES = 4, LINE = 64 };

static struct {
    VIP_DESCRIPTOR work[2]; /* one receives, one sends */
    struct invitation {     /* what the client must know of the server's memory */
        VIP_UINT64 address;
        VIP_MEM_HANDLE handle;
    } invitation;
    char lines[LINES][LINE]; /* the client writes into those of the server */
} shared __attribute__((aligned(64)));

static VIP_NIC_HANDLE nic;
static VIP_VI_HANDLE vi;
static VIP_MEM_HANDLE memory;
static union example_address here;

static void open_device(void)
{
    VIP_VI_ATTRIBUTES attributes = example_attributes();
    VIP_MEM_ATTRIBUTES rights = {NULL, VIP_TRUE, VIP_FALSE};

    example_must("open", VipOpenNic(NULL, &nic));
    example_must("register", VipRegisterMem(nic, &shared, sizeof(shared), &rights, &memory));
    example_must("create", VipCreateVi(nic, &attributes, NULL, NULL, &vi));
    example_local_address(nic, "rdma_write", &here);
}

/* The client: takes the invitation, then writes line after line. */
static void writer(void)
{
    VIP_VI_ATTRIBUTES theirs;
    VIP_DESCRIPTOR *work = shared.work;
    VIP_DESCRIPTOR *done;

    example_describe(&work[0], &shared.invitation, sizeof(shared.invitation), memory);
    example_must("receive", VipPostRecv(vi, &work[0], memory));
    example_must("connect", VipConnectRequest(vi, &here.net, &here.net, EXAMPLE_TIMEOUT, &theirs));
    example_must("invitation", VipRecvWait(vi, EXAMPLE_TIMEOUT, &done));
    for (int i = 0; i < LINES; i++) {
        int length = snprintf(shared.lines[i], LINE, "line %d, by process %d", i, (int)getpid());
        memset(&work[1], 0, sizeof(work[1]));
        work[1].CS.SegCount = 2; /* where to, and what */
        work[1].CS.Length = (VIP_UINT32)length + 1;
        work[1].CS.Control = VIP_CONTROL_OP_RDMAWRITE;
        if (i == LINES - 1) {
            work[1].CS.Control |= VIP_CONTROL_IMMEDIATE;
            work[1].CS.ImmediateData = LINES;
        }
        work[1].DS[0].Remote.Data.AddressBits = shared.invitation.address + (VIP_UINT64)i * LINE;
        work[1].DS[0].Remote.Handle = shared.invitation.handle;
        work[1].DS[1].Local.Data.Address = shared.lines[i];
        work[1].DS[1].Local.Handle = memory;
        work[1].DS[1].Local.Length = (VIP_UINT32)length + 1;
        example_must("write", VipPostSend(vi, &work[1], memory));
        example_must("written", VipSendWait(vi, EXAMPLE_TIMEOUT, &done));
    }
}

/* The server: invites, and waits for the immediate data. */
static void reader(void)
{
    union example_address remote;
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;
    VIP_DESCRIPTOR *work = shared.work;
    VIP_DESCRIPTOR *done;

    example_describe(&work[0], NULL, 0, memory);
    work[0].CS.SegCount = 0; /* the data goes to the lines, not here */
    example_must("receive", VipPostRecv(vi, &work[0], memory));
    example_must("wait", VipConnectWait(nic, &here.net, EXAMPLE_TIMEOUT, &remote.net, &theirs, &request));
    example_must("accept", VipConnectAccept(request, vi));
    shared.invitation.address = (VIP_UINT64)(size_t)shared.lines;
    shared.invitation.handle = memory;
    example_describe(&work[1], &shared.invitation, sizeof(shared.invitation), memory);
    example_must("send", VipPostSend(vi, &work[1], memory));
    example_must("sent", VipSendWait(vi, EXAMPLE_TIMEOUT, &done));
    example_must("immediate data", VipRecvWait(vi, EXAMPLE_TIMEOUT, &done));
    for (unsigned i = 0; i < done->CS.ImmediateData && i < LINES; i++) {
        puts(shared.lines[i]);
    }
}

int main(int argc, char **argv)
{
    enum end end = ends_begin(argc, argv);

    open_device();
    if (end == CLIENT) {
        writer();
    } else {
        reader();
    }
    example_must("disconnect", VipDisconnect(vi));
    example_must("close", VipCloseNic(nic));
    return system_client_failed();
}
