/* SPDX-License-Identifier: MIT */
/* Host addresses, and the ports of a discriminator. */
#ifndef VIPL_TCP_ADDRESS_H
#define VIPL_TCP_ADDRESS_H

#include "backends/tcp/tcp.h"

/* Converts an address from core's form. Returns false if it is not of the family of `like`. */
bool vipl_tcp_from_address(const struct vipl_address *in, const struct vipl_inet *like,
                           struct vipl_inet *out);
void vipl_tcp_to_address(const struct vipl_inet *in, struct vipl_address *out);
bool vipl_tcp_same_host(const struct vipl_inet *a, const struct vipl_inet *b);
/* The port number `probe` of a discriminator; probe < settings->probes. */
uint16_t vipl_tcp_port(const struct tcp_settings *settings, const struct vipl_address *address,
                       unsigned probe);

#endif
