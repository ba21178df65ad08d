/* SPDX-License-Identifier: MIT */
/* Interfaces, host names, and the ports of a discriminator. */
#include <stdlib.h>
#include <string.h>

#include "backends/tcp/tcp.h"
#include "base/hostname.h"
#include "iwarp/crc32c.h"

static bool from_sockaddr(const struct sockaddr *in, struct vipl_inet *out)
{
    memset(out, 0, sizeof(*out));
    if (in->sa_family == AF_INET) {
        out->host_len = 4;
        memcpy(out->host, &((const struct sockaddr_in *)(const void *)in)->sin_addr, 4);
    } else if (in->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const void *)in;
        out->host_len = 16;
        out->scope = v6->sin6_scope_id;
        memcpy(out->host, &v6->sin6_addr, 16);
    }
    return out->host_len != 0;
}

static bool parse(const char *text, struct vipl_inet *out)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    return (uv_ip4_addr(text, 0, &address.v4) == 0 || uv_ip6_addr(text, 0, &address.v6) == 0) &&
           from_sockaddr(&address.any, out);
}

/* How well an interface's address suits: its name if one is asked for, and IPv4 before IPv6, a network before
 * the host alone. 0: not at all. */
static int suits(const uv_interface_address_t *each, const char *device, const struct vipl_inet *inet)
{
    bool link_local = inet->host_len == 16 && inet->host[0] == 0xFE && (inet->host[1] & 0xC0) == 0x80;
    if (device[0] != '\0' && strcmp(each->name, device) != 0) {
        return 0;
    }
    return 1 + (each->is_internal ? 0 : 4) + (inet->host_len == 4 ? 2 : 0) + (link_local ? 0 : 1);
}

int vipl_tcp_choose_address(const char *device, struct vipl_inet *out)
{
    uv_interface_address_t *list;
    int count;
    int best = 0;
    if (parse(device, out)) {
        return 0;
    }
    if (uv_interface_addresses(&list, &count) != 0) {
        return UV_ENODEV;
    }
    for (int i = 0; i < count; i++) {
        struct vipl_inet inet;
        if (from_sockaddr((const struct sockaddr *)&list[i].address, &inet) &&
            suits(&list[i], device, &inet) > best) {
            best = suits(&list[i], device, &inet);
            *out = inet;
        }
    }
    uv_free_interface_addresses(list, count);
    return best > 0 ? 0 : UV_ENODEV;
}

/* IPv4 has two zero bytes behind it: programs expect six. */
void vipl_tcp_to_address(const struct vipl_inet *in, struct vipl_address *out)
{
    memset(out, 0, sizeof(*out));
    out->host_len = in->host_len == 4 ? 6 : 16;
    memcpy(out->host, in->host, in->host_len);
}

bool vipl_tcp_from_address(const struct vipl_address *in, const struct vipl_inet *like, struct vipl_inet *out)
{
    static const uint8_t zero[2];
    memset(out, 0, sizeof(*out));
    if (in->host_len == 16) {
        out->host_len = 16;
        out->scope = like->scope;
    } else if (in->host_len == 4 || (in->host_len == 6 && memcmp(in->host + 4, zero, 2) == 0)) {
        out->host_len = 4;
    }
    memcpy(out->host, in->host, out->host_len);
    return out->host_len != 0 && out->host_len == like->host_len;
}

bool vipl_tcp_same_host(const struct vipl_inet *a, const struct vipl_inet *b)
{
    return a->host_len == b->host_len && memcmp(a->host, b->host, a->host_len) == 0;
}

bool vipl_tcp_same_discriminator(const struct vipl_address *a, const struct vipl_address *b)
{
    return a->disc_len == b->disc_len && memcmp(a->disc, b->disc, a->disc_len) == 0;
}

enum { MOST_STEP = 7 };

unsigned vipl_tcp_probes(const struct tcp_settings *settings)
{
    return settings->ports < TCP_PROBES ? settings->ports : TCP_PROBES;
}

uint16_t vipl_tcp_port(const struct tcp_settings *settings, const struct vipl_address *address,
                       unsigned probe)
{
    uint32_t hash = vipl_crc32c(0, address->disc, address->disc_len);
    bool wide = settings->ports > MOST_STEP * (TCP_PROBES - 1); /* else a step might lead back */
    uint32_t step =
        wide ? 1 + (hash >> 16) % MOST_STEP : 1; /* so that two that meet on one port part on the next */
    return (uint16_t)(settings->first_port + (hash + probe * step) % settings->ports);
}

/* --- names --- */

static bool look_up(struct vipl_be_nic *be, const char *name, uint32_t index, struct vipl_inet *out)
{
    uv_getaddrinfo_t request;
    struct addrinfo hints;
    memset(&hints, 0, sizeof(hints));
    hints.ai_family = be->inet.host_len == 4 ? AF_INET : AF_INET6;
    hints.ai_socktype = SOCK_STREAM;
    if (uv_getaddrinfo(&be->loop, &request, NULL, name, NULL, &hints) != 0) {
        return false;
    }
    bool found = false;
    for (const struct addrinfo *each = request.addrinfo; each != NULL && !found; each = each->ai_next) {
        found = from_sockaddr(each->ai_addr, out) && index-- == 0;
    }
    uv_freeaddrinfo(request.addrinfo);
    return found;
}

VIP_RETURN vipl_tcp_resolve(struct vipl_be_nic *be, const char *name, uint32_t index,
                            struct vipl_address *out)
{
    struct vipl_inet inet =
        be->inet; /* this host's name is the device's address, whatever else the host has */
    bool found = vipl_hostname_is_own(name) ? index == 0 : look_up(be, name, index, &inet);
    if (!found) {
        return VIP_ERROR_NAMESERVICE;
    }
    vipl_tcp_to_address(&inet, out);
    return VIP_SUCCESS;
}

VIP_RETURN vipl_tcp_reverse(struct vipl_be_nic *be, const struct vipl_address *host, char *name, size_t size)
{
    struct vipl_inet inet;
    uv_getnameinfo_t request;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    memset(&address, 0, sizeof(address));
    if (!vipl_tcp_from_address(host, &be->inet, &inet)) {
        return VIP_ERROR_NAMESERVICE;
    }
    if (inet.host_len == 4) {
        address.v4.sin_family = AF_INET;
        memcpy(&address.v4.sin_addr, inet.host, 4);
    } else {
        address.v6.sin6_family = AF_INET6;
        memcpy(&address.v6.sin6_addr, inet.host, 16);
    }
    /* A name service that cannot be asked is as good as one that knows no name. */
    if ((uv_getnameinfo(&be->loop, &request, NULL, &address.any, 0) != 0 &&
         uv_getnameinfo(&be->loop, &request, NULL, &address.any, NI_NUMERICHOST) != 0) ||
        strlen(request.host) >= size) {
        return VIP_ERROR_NAMESERVICE;
    }
    memcpy(name, request.host, strlen(request.host) + 1);
    return VIP_SUCCESS;
}
