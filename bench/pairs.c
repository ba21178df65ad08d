/* SPDX-License-Identifier: MIT */
#include "pairs.h"

#include <string.h>
#include <sys/resource.h>

#include "tool_text.h"
#include "tool_vipl.h"

#define TIMEOUT_MS 20000

bool bench_right(const char *what, VIP_RETURN rc)
{
    if (rc != VIP_SUCCESS) {
        tool_complain_rc(what, rc);
    }
    return rc == VIP_SUCCESS;
}

void bench_raise_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

bool bench_accept(const struct bench_end *end)
{
    struct tool_address local;
    struct tool_address remote;
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE request;

    if (!tool_address_local(end->nic, end->name, strlen(end->name), &local)) {
        return false;
    }
    for (unsigned long i = 0; i < end->count; i++) {
        if (!bench_right("VipConnectWait",
                         tool_connect_wait(end->nic, &local, TIMEOUT_MS, &remote, &attributes, &request)) ||
            !bench_right("VipConnectAccept", VipConnectAccept(request, end->vis[i]))) {
            return false;
        }
    }
    return true;
}

void *bench_accept_thread(void *end)
{
    return bench_accept(end) ? end : NULL;
}

bool bench_request(const struct bench_end *end, unsigned long first, unsigned long count)
{
    struct tool_address local;
    struct tool_address remote;
    VIP_VI_ATTRIBUTES attributes;

    if (!tool_address_local(end->nic, "me", 2, &local) ||
        !tool_address_local(end->nic, end->name, strlen(end->name), &remote)) {
        return false;
    }
    for (unsigned long i = first; i < first + count; i++) {
        if (!bench_right("VipConnectRequest", VipConnectRequest(end->vis[i], &local.u.net, &remote.u.net,
                                                                TIMEOUT_MS, &attributes))) {
            return false;
        }
    }
    return true;
}
