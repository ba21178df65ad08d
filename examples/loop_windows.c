/* SPDX-License-Identifier: MIT */
/*
 * A server around WaitForMultipleObjects(): VipxGetEvent() makes VIs and connection requests part
 * of any event loop of Windows. It says every message in capitals. Its clients are processes of
 * this program: "loop_windows NAME", where NAME is the server's.
 */
#include <ctype.h>
#include <windows.h>

#include <vipl/windows.h>

#include "example.h"

enum { CLIENTS = 3, MESSAGES = 100, BYTES = 64 };

/* A client's VI, with a descriptor and a buffer a direction. */
struct line {
    VIP_DESCRIPTOR receive;
    VIP_DESCRIPTOR send;
    char in[BYTES];
    char out[BYTES];
    VIP_VI_HANDLE vi;
} __attribute__((aligned(64)));

static struct line lines[CLIENTS];
static void *events[1 + CLIENTS]; /* requests, then each line */
static struct line *of_event[1 + CLIENTS];
static DWORD count; /* of them */
static int left;    /* clients that have hung up */
static int answers;

static VIP_NIC_HANDLE nic;
static VIP_MEM_HANDLE memory;
static union example_address here;

static void open_device(const char *name)
{
    example_must("open", VipOpenNic(NULL, &nic));
    example_must("register", VipRegisterMem(nic, lines, sizeof(lines), NULL, &memory));
    example_local_address(nic, name, &here);
}

static void open_line(struct line *line)
{
    VIP_VI_ATTRIBUTES attributes = example_attributes();

    example_must("create", VipCreateVi(nic, &attributes, NULL, NULL, &line->vi));
    example_describe(&line->receive, line->in, BYTES, memory);
    example_describe(&line->send, line->out, BYTES, memory);
    example_must("receive", VipPostRecv(line->vi, &line->receive, memory));
}

static void say(struct line *line)
{
    VIP_DESCRIPTOR *done;

    example_must("send", VipPostSend(line->vi, &line->send, memory));
    example_must("sent", VipSendWait(line->vi, EXAMPLE_TIMEOUT, &done));
}

/* --- the server: it waits in its loop only --- */

static void accept_clients(void)
{
    static int connected;
    union example_address remote;
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;

    while (VipConnectWait(nic, &here.net, 0, &remote.net, &theirs, &request) == VIP_SUCCESS) {
        struct line *line = &lines[connected];
        if (connected == CLIENTS) {
            example_must("reject", VipConnectReject(request));
            continue;
        }
        open_line(line);
        if (VipConnectAccept(request, line->vi) != VIP_SUCCESS) {
            example_must("destroy", VipDestroyVi(line->vi)); /* the client has gone meanwhile */
            continue;
        }
        connected++;
        of_event[count] = line;
        example_must("event", VipxGetEvent(VIPX_FD_RECV, line->vi, &events[count++]));
    }
}

/* The line's event is set. Returns 0 if the client has hung up. */
static int answer(struct line *line)
{
    VIP_DESCRIPTOR *done;
    VIP_RETURN rc;

    while ((rc = VipRecvDone(line->vi, &done)) == VIP_SUCCESS) {
        for (int i = 0; i < BYTES; i++) {
            line->out[i] = (char)toupper((unsigned char)line->in[i]);
        }
        example_must("receive", VipPostRecv(line->vi, &line->receive, memory));
        say(line);
        answers++;
    }
    return rc == VIP_NOT_DONE;
}

/* Takes the event out of the loop before the VI, and with it the event, goes. */
static void close_line(DWORD which)
{
    struct line *line = of_event[which];

    count--;
    events[which] = events[count];
    of_event[which] = of_event[count];
    example_must("disconnect", VipDisconnect(line->vi));
    example_must("destroy", VipDestroyVi(line->vi));
    left++;
}

static int serve(void)
{
    example_must("event", VipxGetEvent(VIPX_FD_CONNECT, nic, &events[count++]));
    accept_clients(); /* once, to name the address */
    while (left < CLIENTS) {
        DWORD which = WaitForMultipleObjects(count, events, FALSE, EXAMPLE_TIMEOUT) - WAIT_OBJECT_0;
        if (which >= count) {
            fputs("no client came\n", stderr);
            return 1;
        }
        if (which == 0) {
            accept_clients();
        } else if (!answer(of_event[which])) {
            close_line(which);
        }
    }
    printf("%d clients, %d answers\n", left, answers);
    return answers != CLIENTS * MESSAGES;
}

/* --- the clients --- */

static int ask(void)
{
    struct line *line = &lines[0];
    VIP_VI_ATTRIBUTES theirs;
    VIP_DESCRIPTOR *done;
    char wanted[BYTES];
    int wrong = 0;

    open_line(line);
    example_must("connect", VipConnectRequest(line->vi, &here.net, &here.net, EXAMPLE_TIMEOUT, &theirs));
    for (int i = 0; i < MESSAGES; i++) {
        memset(line->out, 0, BYTES);
        snprintf(line->out, BYTES, "message %d", i);
        say(line);
        example_must("answer", VipRecvWait(line->vi, EXAMPLE_TIMEOUT, &done));
        snprintf(wanted, BYTES, "MESSAGE %d", i);
        wrong += strcmp(wanted, line->in) != 0;
        example_must("receive", VipPostRecv(line->vi, &line->receive, memory));
    }
    example_must("disconnect", VipDisconnect(line->vi));
    return wrong != 0;
}

static void start_client(const char *name)
{
    STARTUPINFOA how = {.cb = sizeof(how)};
    PROCESS_INFORMATION process;
    char program[MAX_PATH];
    char command[MAX_PATH + 64];

    GetModuleFileNameA(NULL, program, sizeof(program));
    snprintf(command, sizeof(command), "\"%s\" %s", program, name);
    if (!CreateProcessA(program, command, NULL, NULL, FALSE, 0, NULL, NULL, &how, &process)) {
        fputs("a client does not start\n", stderr);
        exit(1);
    }
    CloseHandle(process.hThread);
    CloseHandle(process.hProcess);
}

int main(int argc, char **argv)
{
    char name[32];
    int failed;

    snprintf(name, sizeof(name), "loop-%lu", GetCurrentProcessId());
    open_device(argc == 1 ? name : argv[1]);
    for (int i = 0; argc == 1 && i < CLIENTS; i++) {
        start_client(name);
    }
    failed = argc == 1 ? serve() : ask();
    example_must("close", VipCloseNic(nic)); /* destroys what it still owns */
    return failed;
}
