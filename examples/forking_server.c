/* SPDX-License-Identifier: MIT */
/*
 * The classic forking server: the parent accepts, a child serves, the parent drops its reference of
 * the VI. The NIC handle is shareable, so the child's handles are the parent's; descriptors and
 * buffers are in shared memory.
 *
 * The clients know nothing of it: they are ordinary programs.
 */
#include <sys/wait.h>
#include <unistd.h>

#include <vipl/posix.h>

#include "example.h"

enum { CLIENTS = 50, REQUESTS = 1000, PATIENCE = 60000 };

/* A VI with one descriptor and one number a direction. */
struct line {
    VIP_DESCRIPTOR receive;
    VIP_DESCRIPTOR send;
    VIP_UINT32 in;
    VIP_UINT32 out;
    VIP_VI_HANDLE vi;
} __attribute__((aligned(64)));

static VIP_NIC_HANDLE nic;
static VIP_MEM_HANDLE memory;
static union example_address here;
static char name[32]; /* this run's */

static void open_line(struct line *line)
{
    VIP_VI_ATTRIBUTES attributes = example_attributes();

    example_must("create", VipCreateVi(nic, &attributes, NULL, NULL, &line->vi));
    example_describe(&line->receive, &line->in, sizeof(line->in), memory);
    example_describe(&line->send, &line->out, sizeof(line->out), memory);
    example_must("receive", VipPostRecv(line->vi, &line->receive, memory));
}

static void say(struct line *line, VIP_UINT32 number)
{
    VIP_DESCRIPTOR *done;

    line->out = number;
    example_must("send", VipPostSend(line->vi, &line->send, memory));
    example_must("sent", VipSendWait(line->vi, PATIENCE, &done));
}

/* --- a client: asks for squares, and checks them --- */

static int client(void)
{
    static struct line line;
    VIP_DESCRIPTOR *done;

    example_must("open", VipOpenNic(NULL, &nic));
    example_must("register", VipRegisterMem(nic, &line, sizeof(line), NULL, &memory));
    example_local_address(nic, name, &here);
    open_line(&line);
    example_must("connect", VipConnectRequest(line.vi, &here.net, &here.net, PATIENCE, NULL));
    for (VIP_UINT32 n = 1; n <= REQUESTS; n++) {
        say(&line, n);
        example_must("answer", VipRecvWait(line.vi, PATIENCE, &done));
        if (line.in != n * n) {
            fprintf(stderr, "%u is not the square of %u\n", (unsigned)line.in, (unsigned)n);
            return 1;
        }
        example_must("receive", VipPostRecv(line.vi, &line.receive, memory));
    }
    example_must("disconnect", VipDisconnect(line.vi));
    example_must("close", VipCloseNic(nic));
    return 0;
}

/* --- the server --- */

/* A child's work. Its end drops its references, and with the last one the connection ends. */
static int serve(struct line *line)
{
    VIP_DESCRIPTOR *done;
    int served = 0;

    while (VipRecvWait(line->vi, PATIENCE, &done) == VIP_SUCCESS) { /* until the client hangs up */
        VIP_UINT32 question = line->in;
        example_must("receive", VipPostRecv(line->vi, &line->receive, memory)); /* before it is invited */
        say(line, question * question);
        served++;
    }
    return served == REQUESTS ? 0 : 1;
}

static void accept_one(struct line *line)
{
    union example_address remote;
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;

    open_line(line);
    example_must("wait", VipConnectWait(nic, &here.net, PATIENCE, &remote.net, &theirs, &request));
    example_must("accept", VipConnectAccept(request, line->vi));
}

static void accept_and_fork(struct line *lines)
{
    for (int i = 0; i < CLIENTS; i++) {
        accept_one(&lines[i]);
        pid_t child = fork();
        if (child == 0) {
            _exit(serve(&lines[i]));
        }
        if (child < 0) {
            perror("fork");
            exit(1);
        }
        example_must("drop", VipDestroyVi(lines[i].vi)); /* connected: the child has it */
    }
}

int main(void)
{
    VIP_PVOID lines;
    int failed = 0;
    int status;

    snprintf(name, sizeof(name), "forking %d", (int)getpid());
    for (int i = 0; i < CLIENTS; i++) {
        if (fork() == 0) {
            return client();
        }
    }
    example_must("open", VipxOpenNic(NULL, VIPX_SHAREABLE, &nic));
    example_must("memory", VipxAllocShared(CLIENTS * sizeof(struct line), &lines));
    example_must("register", VipRegisterMem(nic, lines, CLIENTS * sizeof(struct line), NULL, &memory));
    example_local_address(nic, name, &here);
    accept_and_fork(lines);
    while (wait(&status) > 0) {
        failed += status != 0;
    }
    example_must("close", VipCloseNic(nic));
    printf("%d clients, %d requests each, %d processes failed\n", CLIENTS, REQUESTS, failed);
    return failed != 0;
}
