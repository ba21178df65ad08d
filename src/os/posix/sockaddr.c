/* SPDX-License-Identifier: MIT */
/* Addresses of hosts in the system's form, and the names that the system has for them. */
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

bool vipl_sockaddr_resolve(const char *name, uint32_t index, uint16_t host_len, struct vipl_inet *out)
{
    struct addrinfo hints = {.ai_family = host_len == 4 ? AF_INET : AF_INET6, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    if (getaddrinfo(name, NULL, &hints, &list) != 0) {
        return false;
    }
    const struct addrinfo *each = list;
    while (each != NULL && index-- > 0) {
        each = each->ai_next;
    }
    bool found = each != NULL;
    if (found) {
        vipl_sockaddr_read((const union vipl_sockaddr *)(const void *)each->ai_addr, out);
    }
    freeaddrinfo(list);
    return found;
}

bool vipl_sockaddr_reverse(const struct vipl_inet *inet, char *name, size_t size)
{
    union vipl_sockaddr address;
    char host[NI_MAXHOST];
    socklen_t length = vipl_sockaddr_of(inet, &address);
    bool found = getnameinfo(&address.any, length, host, sizeof(host), NULL, 0, 0) == 0 ||
                 getnameinfo(&address.any, length, host, sizeof(host), NULL, 0, NI_NUMERICHOST) == 0;
    if (!found || strlen(host) >= size) {
        return false;
    }
    memcpy(name, host, strlen(host) + 1);
    return true;
}
