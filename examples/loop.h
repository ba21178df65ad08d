/* SPDX-License-Identifier: MIT */
/*
 * What the event loop examples share: a server that says every message in capitals, as two handlers
 * for a loop to call when a descriptor is readable, and the clients that try it.
 */
#ifndef VIPL_EXAMPLE_LOOP_H
#define VIPL_EXAMPLE_LOOP_H

#include <ctype.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vipl/posix.h>

#include "example.h"

enum { LOOP_CLIENTS = 3, LOOP_MESSAGES = 100, LOOP_BYTES = 64 };

static char loop_name[32]; /* of this run's server */

/* A client's VI, with a descriptor and a buffer a direction. */
struct loop_line {
    VIP_DESCRIPTOR receive;
    VIP_DESCRIPTOR send;
    char in[LOOP_BYTES];
    char out[LOOP_BYTES];
    VIP_VI_HANDLE vi;
    int fd; /* readable while there is something to receive */
} __attribute__((aligned(64)));

struct loop_server {
    VIP_NIC_HANDLE nic;
    VIP_MEM_HANDLE memory;
    union example_address here;
    int fd; /* readable while a client waits to be connected */
    struct loop_line lines[LOOP_CLIENTS];
    int connected;
    int left; /* clients that have hung up */
    int answers;
};

static inline void loop_open(struct loop_server *server)
{
    memset(server, 0, sizeof(*server));
    example_must("open", VipOpenNic(NULL, &server->nic));
    example_must("register", VipRegisterMem(server->nic, server, sizeof(*server), NULL, &server->memory));
    example_local_address(server->nic, loop_name, &server->here);
}

static inline void loop_open_line(struct loop_server *server, struct loop_line *line)
{
    VIP_VI_ATTRIBUTES attributes = example_attributes();

    example_must("create", VipCreateVi(server->nic, &attributes, NULL, NULL, &line->vi));
    example_describe(&line->receive, line->in, LOOP_BYTES, server->memory);
    example_describe(&line->send, line->out, LOOP_BYTES, server->memory);
    example_must("receive", VipPostRecv(line->vi, &line->receive, server->memory));
}

static inline void loop_say(struct loop_server *server, struct loop_line *line)
{
    VIP_DESCRIPTOR *done;

    example_must("send", VipPostSend(line->vi, &line->send, server->memory));
    example_must("sent", VipSendWait(line->vi, EXAMPLE_TIMEOUT, &done));
}

/* --- the server: it waits for clients in its loop only --- */

/* The loop is to call loop_accept() once, to name the address, and then whenever the descriptor is
 * readable. */
static inline void loop_listen(struct loop_server *server)
{
    example_must("descriptor", VipxGetFd(VIPX_FD_CONNECT, server->nic, &server->fd));
}

/* The line of a client that is connected now, or NULL: there are no more. */
static inline struct loop_line *loop_accept(struct loop_server *server)
{
    union example_address remote;
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;

    while (VipConnectWait(server->nic, &server->here.net, 0, &remote.net, &theirs, &request) == VIP_SUCCESS) {
        struct loop_line *line = &server->lines[server->connected];
        if (server->connected == LOOP_CLIENTS) {
            example_must("reject", VipConnectReject(request));
            continue;
        }
        loop_open_line(server, line);
        if (VipConnectAccept(request, line->vi) == VIP_SUCCESS) {
            example_must("descriptor", VipxGetFd(VIPX_FD_RECV, line->vi, &line->fd));
            server->connected++;
            return line;
        }
        example_must("destroy", VipDestroyVi(line->vi)); /* the client has gone meanwhile */
    }
    return NULL;
}

/* line->fd is readable. 0: the client has hung up; the loop forgets the descriptor, and then calls
 * loop_close(). */
static inline int loop_answer(struct loop_server *server, struct loop_line *line)
{
    VIP_DESCRIPTOR *done;
    VIP_RETURN rc;

    while ((rc = VipRecvDone(line->vi, &done)) == VIP_SUCCESS) {
        for (int i = 0; i < LOOP_BYTES; i++) {
            line->out[i] = (char)toupper((unsigned char)line->in[i]);
        }
        example_must("receive", VipPostRecv(line->vi, &line->receive, server->memory));
        loop_say(server, line);
        server->answers++;
    }
    return rc == VIP_NOT_DONE;
}

static inline void loop_close(struct loop_server *server, struct loop_line *line)
{
    example_must("disconnect", VipDisconnect(line->vi));
    example_must("destroy", VipDestroyVi(line->vi)); /* closes the descriptor */
    server->left++;
}

/* --- the clients --- */

static inline int loop_client(void)
{
    static struct loop_server self; /* of which it needs one line */
    struct loop_line *line = &self.lines[0];
    VIP_VI_ATTRIBUTES theirs;
    VIP_DESCRIPTOR *done;
    char wanted[LOOP_BYTES];
    int wrong = 0;

    loop_open(&self);
    loop_open_line(&self, line);
    example_must("connect",
                 VipConnectRequest(line->vi, &self.here.net, &self.here.net, EXAMPLE_TIMEOUT, &theirs));
    for (int i = 0; i < LOOP_MESSAGES; i++) {
        memset(line->out, 0, LOOP_BYTES);
        snprintf(line->out, LOOP_BYTES, "message %d", i);
        loop_say(&self, line);
        example_must("answer", VipRecvWait(line->vi, EXAMPLE_TIMEOUT, &done));
        snprintf(wanted, LOOP_BYTES, "MESSAGE %d", i);
        wrong += strcmp(wanted, line->in) != 0;
        example_must("receive", VipPostRecv(line->vi, &line->receive, self.memory));
    }
    example_must("disconnect", VipDisconnect(line->vi));
    example_must("close", VipCloseNic(self.nic));
    return wrong;
}

/* Before the server opens the device: handles do not cross a fork. */
static inline void loop_start_clients(void)
{
    snprintf(loop_name, sizeof(loop_name), "loop %d", (int)getpid());
    for (int i = 0; i < LOOP_CLIENTS; i++) {
        if (fork() == 0) {
            exit(loop_client());
        }
    }
}

/* All have hung up: whether everything went well, as an exit status. */
static inline int loop_end(struct loop_server *server)
{
    int failed = 0;
    int status;

    while (wait(&status) > 0) {
        failed += status != 0;
    }
    example_must("close", VipCloseNic(server->nic));
    printf("%d clients, %d answers, %d clients failed\n", server->left, server->answers, failed);
    return failed != 0 || server->answers != LOOP_CLIENTS * LOOP_MESSAGES;
}

#endif
