/* SPDX-License-Identifier: MIT */
#include "ends.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool_text.h"

enum { TIMEOUT_MS = 10000, POLLS = 1000 };

bool ends_right(const char *what, VIP_RETURN rc)
{
    if (rc != VIP_SUCCESS) {
        tool_complain_rc(what, rc);
    }
    return rc == VIP_SUCCESS;
}

bool ends_connect(struct ends *ends)
{
    struct tool_address address[2];
    VIP_RETURN rc[2] = {VIP_NOT_DONE, VIP_NOT_DONE};

    for (int end = 0; end < 2; end++) {
        if (!tool_address_local(ends->nic[end], end == 0 ? "one" : "other", end == 0 ? 3 : 5,
                                &address[end])) {
            return false;
        }
    }
    for (int end = 0; end < 2; end++) {
        if (!ends_right("VipConnectPeerRequest",
                        VipConnectPeerRequest(ends->vi[end], &address[end].u.net, &address[1 - end].u.net,
                                              TIMEOUT_MS))) {
            return false;
        }
    }
    while (rc[0] == VIP_NOT_DONE || rc[1] == VIP_NOT_DONE) {
        for (int end = 0; end < 2; end++) {
            rc[end] = rc[end] == VIP_NOT_DONE ? VipConnectPeerDone(ends->vi[end], NULL) : rc[end];
        }
    }
    return ends_right("VipConnectPeerDone", rc[0]) && ends_right("VipConnectPeerDone", rc[1]);
}

void ends_destroy(struct ends *ends)
{
    for (int end = 0; end < 2; end++) {
        tool_vi_destroy(ends->vi[end]);
        tool_mem_destroy(&ends->memory[end]);
        if (ends->nic[end] != NULL) {
            VipCloseNic(ends->nic[end]);
        }
    }
}

/* --- the second end in a process of its own --- */

static bool exchange(int line, const void *out, void *in, size_t bytes)
{
    if (send(line, out, bytes, MSG_NOSIGNAL) == (ssize_t)bytes &&
        recv(line, in, bytes, MSG_WAITALL) == (ssize_t)bytes) {
        return true;
    }
    tool_complain("the other process has ended");
    return false;
}

/* Connects a VI to that of the process at the other end of the line. `number` is the first
 * process's. */
static bool connect_over(int line, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, pid_t number, bool is_first)
{
    struct tool_address mine;
    struct tool_address other;
    char name[40];
    VIP_RETURN rc;

    memset(&mine, 0, sizeof(mine));
    snprintf(name, sizeof(name), "ends %ld %s", (long)number, is_first ? "one" : "other");
    if (!tool_address_local(nic, name, strlen(name), &mine) || !exchange(line, &mine, &other, sizeof(mine)) ||
        !ends_right("VipConnectPeerRequest",
                    VipConnectPeerRequest(vi, &mine.u.net, &other.u.net, TIMEOUT_MS))) {
        return false;
    }
    while ((rc = VipConnectPeerDone(vi, NULL)) == VIP_NOT_DONE) {
    }
    return ends_right("VipConnectPeerDone", rc);
}

/* What the second process tells the first one. */
struct far_memory {
    uint64_t address;
    VIP_MEM_HANDLE handle;
};

/* Polls, so that the device makes progress, until the first process hangs up. */
static void poll_until_told(int line, VIP_VI_HANDLE vi)
{
    struct pollfd end = {.fd = line, .events = POLLIN};
    VIP_DESCRIPTOR *desc;

    while (poll(&end, 1, 0) == 0) {
        for (int i = 0; i < POLLS; i++) {
            VipRecvDone(vi, &desc);
        }
    }
}

static bool be_far(const struct ends_far *far, pid_t number, struct ends *self)
{
    VIP_VI_ATTRIBUTES attributes = *far->attributes;
    struct far_memory memory;
    struct far_memory ignored;

    if (!tool_open(far->device, &self->nic[1]) ||
        !tool_mem_create(self->nic[1], far->bytes, true, false, &self->memory[1]) ||
        !ends_right("VipCreateVi", VipCreateVi(self->nic[1], &attributes, NULL, NULL, &self->vi[1])) ||
        !connect_over(far->line, self->nic[1], self->vi[1], number, false)) {
        return false;
    }
    memset(&memory, 0, sizeof(memory));
    memory.address = (uintptr_t)self->memory[1].base;
    memory.handle = self->memory[1].handle;
    if (!exchange(far->line, &memory, &ignored, sizeof(memory))) {
        return false;
    }
    poll_until_told(far->line, self->vi[1]);
    return true;
}

bool ends_far_start(struct ends_far *far)
{
    pid_t number = getpid();
    int line[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, line) != 0 || (far->process = fork()) < 0) {
        tool_complain("no process for the other end");
        return false;
    }
    far->line = line[far->process == 0 ? 1 : 0];
    close(line[far->process == 0 ? 0 : 1]);
    if (far->process == 0) {
        struct ends self;
        memset(&self, 0, sizeof(self));
        bool good = be_far(far, number, &self);
        ends_destroy(&self);
        _exit(good ? 0 : 1);
    }
    return true;
}

bool ends_far_connect(struct ends *ends, struct ends_far *far)
{
    struct far_memory memory;
    struct far_memory none;

    memset(&none, 0, sizeof(none));
    if (!connect_over(far->line, ends->nic[0], ends->vi[0], getpid(), true) ||
        !exchange(far->line, &none, &memory, sizeof(memory))) {
        return false;
    }
    far->address = memory.address;
    far->handle = memory.handle;
    return true;
}

void ends_far_stop(struct ends_far *far)
{
    if (far->process > 0) {
        close(far->line);
        waitpid(far->process, NULL, 0);
    }
}
