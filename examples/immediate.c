/* SPDX-License-Identifier: MIT */
/*
 * Immediate data: 32 bits that travel in the descriptor, beside a message's data or instead of
 * it. Here they say what a message is: the client sends texts of three kinds, and at last a
 * message that has nothing but immediate data. (rdma_write.c shows them with an RDMA Write, which
 * the receiver would not notice otherwise.)
 */
#include "ends.h"
#include "example.h"

enum { MESSAGES = 3, TEXT = 64 };
enum kind { KIND_NAME = 1, KIND_PLACE, KIND_DATE, KIND_END };

static struct {
    VIP_DESCRIPTOR work[MESSAGES + 1];
    char text[MESSAGES][TEXT];
} shared __attribute__((aligned(64)));

static VIP_NIC_HANDLE nic;
static VIP_VI_HANDLE vi;
static VIP_MEM_HANDLE memory;
static union example_address here;

static void open_device(void)
{
    VIP_VI_ATTRIBUTES attributes = example_attributes();

    example_must("open", VipOpenNic(NULL, &nic));
    example_must("register", VipRegisterMem(nic, &shared, sizeof(shared), NULL, &memory));
    example_must("create", VipCreateVi(nic, &attributes, NULL, NULL, &vi));
    example_local_address(nic, "immediate", &here);
}

/* Sends a text, or nothing if it is NULL, with the kind as immediate data. */
static void send_text(enum kind kind, const char *text)
{
    VIP_DESCRIPTOR *work = &shared.work[0];
    VIP_DESCRIPTOR *done;
    size_t length = text == NULL ? 0 : strlen(text) + 1;

    example_describe(work, shared.text[0], (VIP_UINT32)length, memory);
    if (text == NULL) {
        work->CS.SegCount = 0;
    } else {
        memcpy(shared.text[0], text, length);
    }
    work->CS.Control = VIP_CONTROL_IMMEDIATE; /* without this bit ImmediateData is not sent */
    work->CS.ImmediateData = kind;
    example_must("send", VipPostSend(vi, work, memory));
    example_must("sent", VipSendWait(vi, EXAMPLE_TIMEOUT, &done));
}

static void sender(void)
{
    VIP_VI_ATTRIBUTES theirs;

    example_must("connect", VipConnectRequest(vi, &here.net, &here.net, EXAMPLE_TIMEOUT, &theirs));
    send_text(KIND_PLACE, "Santa Clara");
    send_text(KIND_NAME, "Virtual Interface Architecture");
    send_text(KIND_DATE, "1997-12-16");
    send_text(KIND_END, NULL);
}

/* The server: looks at the immediate data of each message first. Returns 0 if all came. */
static int receiver(void)
{
    static const char *const names[] = {"?", "name", "place", "date"};
    union example_address remote;
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;
    VIP_DESCRIPTOR *done;
    unsigned seen = 0;

    for (int i = 0; i < MESSAGES + 1; i++) { /* before the peer can send */
        example_describe(&shared.work[i], shared.text[i % MESSAGES], TEXT, memory);
        shared.work[i].CS.SegCount = i < MESSAGES; /* the last one takes immediate data alone */
        shared.work[i].CS.Length = i < MESSAGES ? TEXT : 0;
        example_must("receive", VipPostRecv(vi, &shared.work[i], memory));
    }
    example_must("wait", VipConnectWait(nic, &here.net, EXAMPLE_TIMEOUT, &remote.net, &theirs, &request));
    example_must("accept", VipConnectAccept(request, vi));
    for (;;) {
        example_must("message", VipRecvWait(vi, EXAMPLE_TIMEOUT, &done));
        if ((done->CS.Status & VIP_STATUS_IMMEDIATE) == 0 || done->CS.ImmediateData > KIND_END) {
            fprintf(stderr, "a message without a kind\n");
            return 1;
        }
        if (done->CS.ImmediateData == KIND_END) {
            return done->CS.Length != 0 || seen != (1U << KIND_NAME | 1U << KIND_PLACE | 1U << KIND_DATE);
        }
        printf("%s: %s\n", names[done->CS.ImmediateData], (char *)done->DS[0].Local.Data.Address);
        seen |= 1U << done->CS.ImmediateData;
    }
}

int main(int argc, char **argv)
{
    enum end end = ends_begin(argc, argv);
    int failed = 0;

    open_device();
    if (end == CLIENT) {
        sender();
    } else {
        failed = receiver();
    }
    example_must("disconnect", VipDisconnect(vi));
    example_must("close", VipCloseNic(nic));
    return failed || system_client_failed();
}
