/* SPDX-License-Identifier: MIT */
/*
 * Two hosts, over TCP. On one of them "two_hosts server", on the other "two_hosts client HOST": a
 * name or an address. They may be started in either order. The client sends lines, the server
 * sends each back in capitals.
 *
 * The device is tcp, at the first address of the host, unless VIPL_DEVICE says another: tcp:eth1,
 * tcp:192.0.2.7. A firewall has to let the ports of VIPL_TCP_PORTS through, 18514-18769 if it is
 * not set.
 */
#include <ctype.h>

#include "example.h"

enum { BYTES = 64, WAIT_MS = 30000 };

static const char name[] = "two_hosts"; /* what the client asks the host for */
static const char *const lines[] = {"is anybody there?", "once more", "goodbye"};
enum { LINES = sizeof(lines) / sizeof(lines[0]) };

static struct {
    VIP_DESCRIPTOR receive;
    VIP_DESCRIPTOR send;
    char in[BYTES];
    char out[BYTES];
} shared __attribute__((aligned(64)));

static VIP_NIC_HANDLE nic;
static VIP_VI_HANDLE vi;
static VIP_MEM_HANDLE memory;
static union example_address here;

static void open_device(void)
{
    VIP_VI_ATTRIBUTES attributes = example_attributes();
    const char *device = getenv("VIPL_DEVICE");

    example_must("open", VipOpenNic(device != NULL ? device : "tcp", &nic));
    example_must("register", VipRegisterMem(nic, &shared, sizeof(shared), NULL, &memory));
    example_must("create", VipCreateVi(nic, &attributes, NULL, NULL, &vi));
    example_local_address(nic, name, &here);
}

static void post_receive(void)
{
    example_describe(&shared.receive, shared.in, BYTES, memory);
    example_must("receive", VipPostRecv(vi, &shared.receive, memory));
}

static void send_text(void)
{
    VIP_DESCRIPTOR *done;

    example_describe(&shared.send, shared.out, (VIP_UINT32)strlen(shared.out) + 1, memory);
    example_must("send", VipPostSend(vi, &shared.send, memory));
    example_must("sent", VipSendWait(vi, WAIT_MS, &done));
}

static void receive_text(void)
{
    VIP_DESCRIPTOR *done;

    example_must("message", VipRecvWait(vi, WAIT_MS, &done));
    shared.in[BYTES - 1] = 0; /* a peer may send a text that does not end */
}

static int server(void)
{
    union example_address client;
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;

    post_receive();
    example_must("wait", VipConnectWait(nic, &here.net, WAIT_MS, &client.net, &theirs, &request));
    example_must("accept", VipConnectAccept(request, vi));
    for (int i = 0; i < LINES; i++) {
        receive_text();
        for (int c = 0; c < BYTES; c++) {
            shared.out[c] = (char)toupper((unsigned char)shared.in[c]);
        }
        if (i < LINES - 1) {
            post_receive(); /* before the answer invites the next line */
        }
        send_text();
    }
    return 0;
}

static int client(const char *host)
{
    union example_address there = {{0}};
    VIP_VI_ATTRIBUTES theirs;

    example_must("name service", VipNSInit(nic, NULL));
    example_must("host", VipNSGetHostByName(nic, (VIP_CHAR *)host, &there.net, 0));
    there.net.DiscriminatorLen = sizeof(name) - 1;
    memcpy(there.net.HostAddress + there.net.HostAddressLen, name, sizeof(name) - 1);
    post_receive();
    example_must("connect", VipConnectRequest(vi, &here.net, &there.net, WAIT_MS, &theirs));
    for (int i = 0; i < LINES; i++) {
        snprintf(shared.out, BYTES, "%s", lines[i]);
        send_text();
        receive_text();
        printf("%s -> %s\n", lines[i], shared.in);
        if (i < LINES - 1) {
            post_receive();
        }
    }
    return strcmp(shared.in, "GOODBYE") != 0;
}

int main(int argc, char **argv)
{
    int is_server = argc == 2 && strcmp(argv[1], "server") == 0;
    int is_client = argc == 3 && strcmp(argv[1], "client") == 0;
    int failed;

    if (!is_server && !is_client) {
        fprintf(stderr, "usage: %s server | client HOST\n", argv[0]);
        return 2;
    }
    open_device();
    failed = is_server ? server() : client(argv[2]);
    example_must("disconnect", VipDisconnect(vi));
    example_must("close", VipCloseNic(nic));
    return failed;
}
