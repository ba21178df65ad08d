/* SPDX-License-Identifier: MIT */
/*
 * rping, of rdma-core, as a VIPL program: the other end is a real one. The client tells where its
 * data is; the server fetches it by RDMA Read and says so; the client tells where it wants it; the
 * server puts it there by RDMA Write, and says so. What is told is 16 bytes in network order:
 * address, handle, size.
 *
 *   rping server|client|trespass COUNT SIZE
 *
 * The device is VIPL_TEST_DEVICE's, the port VIPL_TCP_PORTS' only one. `trespass` is a server that
 * writes where it may not: the other end's Terminate is to be that write's error, and the
 * connection's end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vipl/vipl.h>

enum { PATIENCE = 30000, INFO = 16, ROOM = 1 << 16, FIRST_CHAR = 'A', LAST_CHAR = 'z' };

static struct {
    VIP_DESCRIPTOR receive;
    VIP_DESCRIPTOR send;
    unsigned char received[INFO];
    unsigned char sent[INFO];
    char source[ROOM]; /* the client's */
    char sink[ROOM];
} shared __attribute__((aligned(64)));

struct info {
    VIP_UINT64 address;
    VIP_UINT32 handle;
    VIP_UINT32 size;
};

static VIP_NIC_HANDLE nic;
static VIP_VI_HANDLE vi;
static VIP_MEM_HANDLE memory;
static union {
    VIP_NET_ADDRESS net;
    char room[160];
} here, there;

static void fail(const char *what, int code)
{
    fprintf(stderr, "vipl-rping: %s: %d\n", what, code);
    exit(1);
}

static void must(const char *what, VIP_RETURN rc)
{
    if (rc != VIP_SUCCESS) {
        fail(what, (int)rc);
    }
}

/* --- what is told --- */

static void put(unsigned char *to, VIP_UINT64 value, int bytes)
{
    while (bytes-- > 0) {
        *to++ = (unsigned char)(value >> 8 * bytes);
    }
}

static VIP_UINT64 get(const unsigned char *from, int bytes)
{
    VIP_UINT64 value = 0;

    while (bytes-- > 0) {
        value = value << 8 | *from++;
    }
    return value;
}

static void describe(VIP_DESCRIPTOR *work, void *bytes, VIP_UINT32 length)
{
    memset(work, 0, sizeof(*work));
    work->CS.SegCount = 1;
    work->CS.Length = length;
    work->DS[0].Local.Data.Address = bytes;
    work->DS[0].Local.Handle = memory;
    work->DS[0].Local.Length = length;
}

static void post_receive(void)
{
    describe(&shared.receive, shared.received, INFO);
    must("post a receive", VipPostRecv(vi, &shared.receive, memory));
}

static void send_and_wait(const char *what)
{
    VIP_DESCRIPTOR *done;

    must(what, VipPostSend(vi, &shared.send, memory));
    must(what, VipSendWait(vi, PATIENCE, &done));
}

static void tell(void *address, VIP_UINT32 size)
{
    put(shared.sent, (VIP_UINT64)(size_t)address, 8);
    put(shared.sent + 8, memory, 4);
    put(shared.sent + 12, size, 4);
    describe(&shared.send, shared.sent, INFO);
    send_and_wait("send");
}

/* False: the other end has left. */
static int hear(struct info *out)
{
    VIP_DESCRIPTOR *done;
    VIP_RETURN rc = VipRecvWait(vi, PATIENCE, &done);

    if (rc == VIP_DESCRIPTOR_ERROR) {
        return 0;
    }
    must("receive", rc);
    if (done->CS.Length != INFO) {
        fail("bytes received", (int)done->CS.Length);
    }
    out->address = get(shared.received, 8);
    out->handle = (VIP_UINT32)get(shared.received + 8, 4);
    out->size = (VIP_UINT32)get(shared.received + 12, 4);
    post_receive();
    return 1;
}

static VIP_RETURN rdma(VIP_UINT16 op, void *local, const struct info *info)
{
    VIP_DESCRIPTOR *done;

    memset(&shared.send, 0, sizeof(shared.send));
    shared.send.CS.SegCount = 2;
    shared.send.CS.Length = info->size;
    shared.send.CS.Control = op;
    shared.send.DS[0].Remote.Data.AddressBits = info->address;
    shared.send.DS[0].Remote.Handle = info->handle;
    shared.send.DS[1].Local.Data.Address = local;
    shared.send.DS[1].Local.Handle = memory;
    shared.send.DS[1].Local.Length = info->size;
    must("post RDMA", VipPostSend(vi, &shared.send, memory));
    return VipSendWait(vi, PATIENCE, &done);
}

/* --- the data, as rping makes it --- */

static void fill(char *out, int round, VIP_UINT32 size)
{
    int c = FIRST_CHAR + round % (LAST_CHAR - FIRST_CHAR + 1);
    int at = snprintf(out, size, "rdma-ping-%d: ", round);

    for (; (VIP_UINT32)at < size; at++) {
        out[at] = (char)c;
        c = c == LAST_CHAR ? FIRST_CHAR : c + 1;
    }
    out[size - 1] = 0;
}

static void check(const char *data, int round, VIP_UINT32 size)
{
    static char expected[ROOM];

    fill(expected, round, size);
    if (memcmp(data, expected, size) != 0) {
        fail("wrong data in round", round);
    }
}

/* --- the two ends --- */

static void serve(int count, VIP_UINT32 size)
{
    struct info info;
    int round = 0;

    for (; hear(&info); round++) {
        if (info.size != size) {
            fail("bytes told", (int)info.size);
        }
        memset(shared.sink, 0, size);
        must("RDMA Read", rdma(VIP_CONTROL_OP_RDMAREAD, shared.sink, &info));
        check(shared.sink, round, size);
        tell(NULL, 0);
        if (!hear(&info)) {
            fail("the client left in round", round);
        }
        must("RDMA Write", rdma(VIP_CONTROL_OP_RDMAWRITE, shared.sink, &info));
        tell(NULL, 0);
    }
    if (round != count) {
        fail("rounds", round);
    }
}

static void trespass(void)
{
    struct info info;
    VIP_DESCRIPTOR *done;

    if (!hear(&info)) {
        fail("the client left", 0);
    }
    info.handle ^= 0x00FFFF00;
    if (rdma(VIP_CONTROL_OP_RDMAWRITE, shared.sink, &info) != VIP_DESCRIPTOR_ERROR) {
        fail("the write was taken, status", (int)shared.send.CS.Status);
    }
    if ((shared.send.CS.Status & VIP_STATUS_RDMA_PROT_ERROR) == 0) {
        fail("the write's status", (int)shared.send.CS.Status);
    }
    if (VipRecvWait(vi, PATIENCE, &done) != VIP_DESCRIPTOR_ERROR) {
        fail("the connection lives", 0);
    }
}

static void ask(int count, VIP_UINT32 size)
{
    struct info info;

    for (int round = 0; round < count; round++) {
        fill(shared.source, round, size);
        memset(shared.sink, 0, size);
        tell(shared.source, size);
        if (!hear(&info)) {
            fail("the server left in round", round);
        }
        tell(shared.sink, size);
        if (!hear(&info)) {
            fail("the server left in round", round);
        }
        check(shared.sink, round, size);
    }
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    (void)context;
    (void)error; /* the end of the connection */
}

static void open_device(void)
{
    VIP_MEM_ATTRIBUTES rights = {NULL, VIP_TRUE, VIP_TRUE};
    VIP_VI_ATTRIBUTES attributes;
    VIP_NIC_ATTRIBUTES limits;

    must("open", VipOpenNic(getenv("VIPL_TEST_DEVICE"), &nic));
    must("error callback", VipErrorCallback(nic, NULL, on_error));
    must("register", VipRegisterMem(nic, &shared, sizeof(shared), &rights, &memory));
    memset(&attributes, 0, sizeof(attributes));
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = ROOM;
    attributes.EnableRdmaWrite = VIP_TRUE;
    attributes.EnableRdmaRead = VIP_TRUE;
    must("create", VipCreateVi(nic, &attributes, NULL, NULL, &vi));
    must("query", VipQueryNic(nic, &limits));
    here.net.HostAddressLen = limits.NicAddressLen;
    memcpy(here.net.HostAddress, limits.LocalNicAddress, limits.NicAddressLen);
    post_receive();
}

static void accept_one(void)
{
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;

    there.net.HostAddressLen = 16;
    must("wait", VipConnectWait(nic, &here.net, 10 * PATIENCE, &there.net, &theirs, &request));
    if (theirs.ReliabilityLevel != VIP_SERVICE_RELIABLE_DELIVERY || !theirs.EnableRdmaRead) {
        fail("a request of another kind", theirs.ReliabilityLevel);
    }
    must("accept", VipConnectAccept(request, vi));
}

int main(int argc, char **argv)
{
    const char *role = argc == 4 ? argv[1] : "";
    int count = argc == 4 ? atoi(argv[2]) : 0;
    VIP_UINT32 size = argc == 4 ? (VIP_UINT32)atoi(argv[3]) : 0;

    if (count < 1 || size < 32 || size >= ROOM) {
        fprintf(stderr, "usage: vipl-rping server|client|trespass COUNT SIZE\n");
        return 2;
    }
    open_device();
    if (strcmp(role, "client") == 0) {
        must("connect", VipConnectRequest(vi, &here.net, &here.net, PATIENCE, NULL));
        ask(count, size);
    } else {
        accept_one();
        if (strcmp(role, "trespass") == 0) {
            trespass();
        } else {
            serve(count, size);
        }
    }
    must("disconnect", VipDisconnect(vi));
    must("close", VipCloseNic(nic));
    printf("vipl-rping %s: %d times %u bytes\n", role, count, (unsigned)size);
    return 0;
}
