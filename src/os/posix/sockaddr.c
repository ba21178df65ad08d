/* SPDX-License-Identifier: MIT */
/* Addresses of hosts in the system's form. */
#include "os/posix/sockaddr.h"

#include <string.h>

socklen_t vipl_sockaddr_of(const struct vipl_inet *in, union vipl_sockaddr *out)
{
    memset(out, 0, sizeof(*out));
    if (in->host_len == 4) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons(in->port);
        memcpy(&out->v4.sin_addr, in->host, 4);
        return sizeof(out->v4);
    }
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_port = htons(in->port);
    out->v6.sin6_scope_id = in->scope;
    memcpy(&out->v6.sin6_addr, in->host, 16);
    return sizeof(out->v6);
}

void vipl_sockaddr_read(const union vipl_sockaddr *in, struct vipl_inet *out)
{
    memset(out, 0, sizeof(*out));
    if (in->any.sa_family == AF_INET) {
        out->host_len = 4;
        out->port = ntohs(in->v4.sin_port);
        memcpy(out->host, &in->v4.sin_addr, 4);
    } else if (in->any.sa_family == AF_INET6) {
        out->host_len = 16;
        out->port = ntohs(in->v6.sin6_port);
        out->scope = in->v6.sin6_scope_id;
        memcpy(out->host, &in->v6.sin6_addr, 16);
    }
}
