/* SPDX-License-Identifier: MIT */
/* Host addresses, and the ports of a discriminator. */
#include "backends/tcp/address.h"

#include <string.h>

#include "iwarp/crc32c.h"

/* An IPv4 address is followed by two zero bytes: programs expect six. */
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

enum { MAX_STEP = 7 };

uint16_t vipl_tcp_port(const struct tcp_settings *settings, const struct vipl_address *address,
                       unsigned probe)
{
    uint32_t hash = vipl_crc32c(0, address->disc, address->disc_len);
    /* otherwise the steps might lead back to a port */
    bool wide = settings->ports > MAX_STEP * (TCP_MAX_PROBES - 1);
    /* two discriminators that share one port differ in the next */
    uint32_t step = wide ? 1 + (hash >> 16) % MAX_STEP : 1;
    return (uint16_t)(settings->first_port + (hash + probe * step) % settings->ports);
}
