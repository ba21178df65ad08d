/* SPDX-License-Identifier: MIT */
/*
 * One server thread, several clients: the receives of all VIs report to one completion queue. The
 * server waits there, learns which VI has a message, takes it from that VI, and answers.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "example.h"

enum { CLIENTS = 3, QUESTIONS = 4 };

/* A VI, with a descriptor and a number for each direction. */
struct line {
    VIP_DESCRIPTOR receive;
    VIP_DESCRIPTOR send;
    VIP_UINT32 in;
    VIP_UINT32 out;
    VIP_VI_HANDLE vi;
} __attribute__((aligned(64)));

static struct line lines[CLIENTS];
static VIP_NIC_HANDLE nic;
static VIP_MEM_HANDLE memory;
static union example_address here;

static void open_device(void)
{
    example_must("open", VipOpenNic(NULL, &nic));
    example_must("register", VipRegisterMem(nic, lines, sizeof(lines), NULL, &memory));
    example_local_address(nic, "cq_server", &here);
}

static void open_line(struct line *line, VIP_CQ_HANDLE receives)
{
    VIP_VI_ATTRIBUTES attributes = example_attributes();

    example_must("create", VipCreateVi(nic, &attributes, NULL, receives, &line->vi));
    example_must("remember", VipSetUserData(line->vi, line));
    example_describe(&line->receive, &line->in, sizeof(line->in), memory);
    example_describe(&line->send, &line->out, sizeof(line->out), memory);
    example_must("receive", VipPostRecv(line->vi, &line->receive, memory));
}

static void send_number(struct line *line, VIP_UINT32 number)
{
    VIP_DESCRIPTOR *done;

    line->out = number;
    example_must("send", VipPostSend(line->vi, &line->send, memory));
    example_must("sent", VipSendWait(line->vi, EXAMPLE_TIMEOUT, &done));
}

/* A client asks for squares, in order, and checks them. */
static int client(void)
{
    struct line *line = &lines[0];
    VIP_VI_ATTRIBUTES theirs;
    VIP_DESCRIPTOR *done;

    open_device();
    open_line(line, NULL);
    example_must("connect", VipConnectRequest(line->vi, &here.net, &here.net, EXAMPLE_TIMEOUT, &theirs));
    for (VIP_UINT32 n = 1; n <= QUESTIONS; n++) {
        send_number(line, n);
        example_must("answer", VipRecvWait(line->vi, EXAMPLE_TIMEOUT, &done));
        if (line->in != n * n) {
            fprintf(stderr, "%u is not the square of %u\n", (unsigned)line->in, (unsigned)n);
            return 1;
        }
        example_must("receive", VipPostRecv(line->vi, &line->receive, memory));
    }
    example_must("disconnect", VipDisconnect(line->vi));
    example_must("close", VipCloseNic(nic));
    return 0;
}

static void accept_clients(VIP_CQ_HANDLE receives)
{
    union example_address remote;
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;

    for (int i = 0; i < CLIENTS; i++) {
        open_line(&lines[i], receives);
        example_must("wait", VipConnectWait(nic, &here.net, EXAMPLE_TIMEOUT, &remote.net, &theirs, &request));
        example_must("accept", VipConnectAccept(request, lines[i].vi));
    }
}

/* Answers all questions of all clients, in the order they come. */
static void serve(VIP_CQ_HANDLE receives)
{
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN is_receive;
    VIP_DESCRIPTOR *done;

    for (int answered = 0; answered < CLIENTS * QUESTIONS;) {
        example_must("completion", VipCQWait(receives, EXAMPLE_TIMEOUT, &vi, &is_receive));
        struct line *line = VipGetUserData(vi);
        if (VipRecvDone(vi, &done) != VIP_SUCCESS) {
            continue; /* the client has hung up: its receive comes back unused */
        }
        VIP_UINT32 question = line->in;
        example_must("receive", VipPostRecv(vi, &line->receive, memory)); /* before the next can come */
        send_number(line, question * question);
        answered++;
    }
}

int main(void)
{
    VIP_CQ_HANDLE receives;
    int failed = 0;
    int status;

    for (int i = 0; i < CLIENTS; i++) { /* before the device is open: handles do not cross a fork */
        if (fork() == 0) {
            return client();
        }
    }
    open_device();
    example_must("queue", VipCreateCQ(nic, CLIENTS * 2, &receives));
    accept_clients(receives);
    serve(receives);
    while (wait(&status) > 0) {
        failed += status != 0;
    }
    example_must("close", VipCloseNic(nic));
    printf("%d clients, %d answers, %d clients failed\n", CLIENTS, CLIENTS * QUESTIONS, failed);
    return failed != 0;
}
