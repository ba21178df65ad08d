/* SPDX-License-Identifier: MIT */
/*
 * A program as there were for Windows NT: it has no import library, loads vipl.dll by its name when
 * it runs, and finds each function of VIPL 1.0 there by its name, undecorated on each CPU. Two
 * threads exchange messages by what was found.
 */
#include <windows.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vipl/vipl.h>

#define FUNCTIONS(F) \
    F(VipOpenNic) \
    F(VipCloseNic) \
    F(VipQueryNic) \
    F(VipCreatePtag) \
    F(VipDestroyPtag) \
    F(VipRegisterMem) \
    F(VipDeregisterMem) \
    F(VipQueryMem) \
    F(VipSetMemAttributes) \
    F(VipCreateVi) \
    F(VipDestroyVi) \
    F(VipQueryVi) \
    F(VipSetViAttributes) \
    F(VipSetUserData) \
    F(VipGetUserData) \
    F(VipConnectWait) \
    F(VipConnectAccept) \
    F(VipConnectReject) \
    F(VipConnectRequest) \
    F(VipDisconnect) \
    F(VipConnectPeerRequest) \
    F(VipConnectPeerDone) \
    F(VipConnectPeerWait) \
    F(VipPostSend) \
    F(VipPostRecv) \
    F(VipSendDone) \
    F(VipRecvDone) \
    F(VipSendWait) \
    F(VipRecvWait) \
    F(VipSendNotify) \
    F(VipRecvNotify) \
    F(VipCreateCQ) \
    F(VipDestroyCQ) \
    F(VipResizeCQ) \
    F(VipCQDone) \
    F(VipCQWait) \
    F(VipCQNotify) \
    F(VipErrorCallback) \
    F(VipQuerySystemManagementInfo) \
    F(VipNSInit) \
    F(VipNSGetHostByName) \
    F(VipNSGetHostByAddr) \
    F(VipNSShutdown)

static struct {
#define MEMBER(name) __typeof__(&(name)) name;
    FUNCTIONS(MEMBER)
} api;

enum { MESSAGES = 100, TEXT = 64, WAIT_MS = 60000 };

/* A VI with memory for a message that is sent and for one that is received. */
struct end {
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_MEM_HANDLE memory;
    struct message {
        VIP_DESCRIPTOR work;
        char text[TEXT]; /* a message is a multiple of 64 bytes */
    } * out, *in;
    union {
        VIP_NET_ADDRESS address;
        char room[256];
    } here, peer;
};

static void must(const char *what, VIP_RETURN rc)
{
    if (rc != VIP_SUCCESS) {
        fprintf(stderr, "%s: error %d\n", what, (int)rc);
        exit(1);
    }
}

static void load(void)
{
    HMODULE library = LoadLibraryA("vipl.dll");
    FARPROC found;
    if (library == NULL) {
        fprintf(stderr, "no vipl.dll: error %lu\n", (unsigned long)GetLastError());
        exit(1);
    }
#define FIND(name) \
    found = GetProcAddress(library, #name); \
    if (found == NULL) { \
        fprintf(stderr, "vipl.dll has no " #name "\n"); \
        exit(1); \
    } \
    memcpy(&api.name, &found, sizeof(found));
    FUNCTIONS(FIND)
}

static void begin(struct end *end, const char *name)
{
    VIP_VI_ATTRIBUTES ours = {VIP_SERVICE_RELIABLE_DELIVERY, TEXT, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_NIC_ATTRIBUTES limits;
    VIP_NET_ADDRESS *here = &end->here.address;
    must("open", api.VipOpenNic(NULL, &end->nic));
    must("query", api.VipQueryNic(end->nic, &limits));
    /* its pages, and so each descriptor, lie on multiples of 64 */
    end->out = VirtualAlloc(NULL, 2 * sizeof(*end->out), MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
    end->in = end->out + 1;
    must("register", api.VipRegisterMem(end->nic, end->out, 2 * sizeof(*end->out), NULL, &end->memory));
    must("create", api.VipCreateVi(end->nic, &ours, NULL, NULL, &end->vi));
    here->HostAddressLen = limits.NicAddressLen;
    here->DiscriminatorLen = (VIP_UINT16)strlen(name);
    memcpy(here->HostAddress, limits.LocalNicAddress, limits.NicAddressLen);
    memcpy(here->HostAddress + limits.NicAddressLen, name, strlen(name));
}

static VIP_DESCRIPTOR *prepared(const struct end *end, struct message *message)
{
    VIP_DESCRIPTOR *work = &message->work;
    memset(work, 0, sizeof(*work));
    work->CS.SegCount = 1;
    work->CS.Length = work->DS[0].Local.Length = TEXT;
    work->DS[0].Local.Data.Address = message->text;
    work->DS[0].Local.Handle = end->memory;
    return work;
}

static void post_receive(struct end *end)
{
    must("receive", api.VipPostRecv(end->vi, prepared(end, end->in), end->memory));
}

static void send_message(struct end *end, const char *what, int i)
{
    VIP_DESCRIPTOR *done;
    sprintf(end->out->text, "%s %d", what, i);
    must("send", api.VipPostSend(end->vi, prepared(end, end->out), end->memory));
    must("sent", api.VipSendWait(end->vi, WAIT_MS, &done));
}

static void await_message(struct end *end, const char *what, int i)
{
    VIP_DESCRIPTOR *done;
    char wanted[TEXT];
    must("received", api.VipRecvWait(end->vi, WAIT_MS, &done));
    sprintf(wanted, "%s %d", what, i);
    if (done != &end->in->work || done->CS.Length != TEXT || strcmp(end->in->text, wanted) != 0) {
        fprintf(stderr, "%s has not come as it went\n", wanted);
        exit(1);
    }
}

static DWORD WINAPI client(void *name)
{
    static struct end end;
    VIP_VI_ATTRIBUTES theirs;
    int i;
    begin(&end, name);
    must("connect", api.VipConnectRequest(end.vi, &end.here.address, &end.here.address, WAIT_MS, &theirs));
    for (i = 0; i < MESSAGES; i++) {
        post_receive(&end);
        send_message(&end, "question", i);
        await_message(&end, "answer", i);
    }
    must("disconnect", api.VipDisconnect(end.vi));
    must("close", api.VipCloseNic(end.nic));
    return 0;
}

static void serve(struct end *end)
{
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;
    int i;
    must("wait",
         api.VipConnectWait(end->nic, &end->here.address, WAIT_MS, &end->peer.address, &theirs, &request));
    post_receive(end); /* before a message can come */
    must("accept", api.VipConnectAccept(request, end->vi));
    for (i = 0; i < MESSAGES; i++) {
        await_message(end, "question", i);
        if (i + 1 < MESSAGES) {
            post_receive(end);
        }
        send_message(end, "answer", i);
    }
}

int main(void)
{
    static struct end end;
    char name[32];
    HANDLE thread;
    load();
    sprintf(name, "nt-%lu", (unsigned long)GetCurrentProcessId());
    begin(&end, name);
    thread = CreateThread(NULL, 0, client, name, 0, NULL);
    if (thread == NULL) {
        return 1;
    }
    serve(&end);
    WaitForSingleObject(thread, INFINITE);
    must("close", api.VipCloseNic(end.nic));
    printf("vipl.dll has all functions; %d messages went and came\n", MESSAGES);
    return 0;
}
