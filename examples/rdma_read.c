/* SPDX-License-Identifier: MIT */
/*
 * RDMA Read: the server tells the client where a table is, once; the client reads rows of it when
 * it wants to. The server's program has no part in a read: it makes no call and posts no
 * receive for it.
 */
#include "ends.h"
#include "example.h"

enum { ROWS = 8 };

struct row {
    VIP_UINT32 number;
    VIP_UINT32 square;
};

static struct {
    VIP_DESCRIPTOR work[2];
    struct invitation { /* what the client must know of the server's memory */
        VIP_UINT64 address;
        VIP_MEM_HANDLE handle;
    } invitation;
    struct row table[ROWS]; /* the server's is full; the client has room for it */
} shared __attribute__((aligned(64)));

static VIP_NIC_HANDLE nic;
static VIP_VI_HANDLE vi;
static VIP_MEM_HANDLE memory;
static union example_address here;

static void open_device(void)
{
    VIP_VI_ATTRIBUTES attributes = example_attributes();
    VIP_MEM_ATTRIBUTES rights = {NULL, VIP_FALSE, VIP_TRUE}; /* peers may read, and not write */
    VIP_NIC_ATTRIBUTES limits;

    example_must("open", VipOpenNic(NULL, &nic));
    example_must("query", VipQueryNic(nic, &limits));
    if ((limits.RDMAReadSupport & attributes.ReliabilityLevel) == 0) {
        fprintf(stderr, "this device has no RDMA Read at this level\n");
        exit(1);
    }
    attributes.EnableRdmaRead = VIP_TRUE; /* the memory and the VI both have to allow it */
    example_must("register", VipRegisterMem(nic, &shared, sizeof(shared), &rights, &memory));
    example_must("create", VipCreateVi(nic, &attributes, NULL, NULL, &vi));
    example_local_address(nic, "rdma_read", &here);
}

/* The client: fetches one row from the server's table into the same row of its own. */
static void fetch(int row)
{
    VIP_DESCRIPTOR *work = &shared.work[0];
    VIP_DESCRIPTOR *done;

    memset(work, 0, sizeof(*work));
    work->CS.SegCount = 2; /* where from, and where to */
    work->CS.Length = sizeof(struct row);
    work->CS.Control = VIP_CONTROL_OP_RDMAREAD;
    work->DS[0].Remote.Data.AddressBits = shared.invitation.address + (VIP_UINT64)row * sizeof(struct row);
    work->DS[0].Remote.Handle = shared.invitation.handle;
    work->DS[1].Local.Data.Address = &shared.table[row];
    work->DS[1].Local.Handle = memory;
    work->DS[1].Local.Length = sizeof(struct row);
    example_must("read", VipPostSend(vi, work, memory));           /* by the send queue */
    example_must("data", VipSendWait(vi, EXAMPLE_TIMEOUT, &done)); /* it is here */
}

static int reader(void)
{
    VIP_VI_ATTRIBUTES theirs;
    VIP_DESCRIPTOR *done;

    example_describe(&shared.work[0], &shared.invitation, sizeof(shared.invitation), memory);
    example_must("receive", VipPostRecv(vi, &shared.work[0], memory));
    example_must("connect", VipConnectRequest(vi, &here.net, &here.net, EXAMPLE_TIMEOUT, &theirs));
    example_must("invitation", VipRecvWait(vi, EXAMPLE_TIMEOUT, &done));
    for (int row = ROWS - 1; row >= 0; row -= 3) {
        fetch(row);
        printf("row %d of the server's table: %u, %u\n", row, (unsigned)shared.table[row].number,
               (unsigned)shared.table[row].square);
        if (shared.table[row].square != (VIP_UINT32)(row * row)) {
            return 1;
        }
    }
    example_describe(&shared.work[0], NULL, 0, memory); /* no data: it only ends this */
    shared.work[0].CS.SegCount = 0;
    example_must("send", VipPostSend(vi, &shared.work[0], memory));
    example_must("sent", VipSendWait(vi, EXAMPLE_TIMEOUT, &done));
    return 0;
}

/* The server: fills the table, says where it is, and waits until the client has read enough. */
static void owner(void)
{
    union example_address remote;
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;
    VIP_DESCRIPTOR *done;

    for (VIP_UINT32 n = 0; n < ROWS; n++) {
        shared.table[n].number = n;
        shared.table[n].square = n * n;
    }
    example_describe(&shared.work[1], NULL, 0, memory);
    shared.work[1].CS.SegCount = 0;
    example_must("receive", VipPostRecv(vi, &shared.work[1], memory)); /* for the end */
    example_must("wait", VipConnectWait(nic, &here.net, EXAMPLE_TIMEOUT, &remote.net, &theirs, &request));
    example_must("accept", VipConnectAccept(request, vi));
    shared.invitation.address = (VIP_UINT64)(size_t)shared.table;
    shared.invitation.handle = memory;
    example_describe(&shared.work[0], &shared.invitation, sizeof(shared.invitation), memory);
    example_must("send", VipPostSend(vi, &shared.work[0], memory));
    example_must("sent", VipSendWait(vi, EXAMPLE_TIMEOUT, &done));
    example_must("end", VipRecvWait(vi, EXAMPLE_TIMEOUT, &done)); /* all reads are made meanwhile */
}

int main(int argc, char **argv)
{
    enum end end = ends_begin(argc, argv);
    int failed = 0;

    open_device();
    if (end == CLIENT) {
        failed = reader();
    } else {
        owner();
    }
    example_must("disconnect", VipDisconnect(vi));
    example_must("close", VipCloseNic(nic));
    return failed || system_client_failed();
}
