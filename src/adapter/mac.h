/* SPDX-License-Identifier: MIT */
/* The card's address where neither its user nor an interface has one: of a single card, chosen
 * here. */
#ifndef ADAPTER_MAC_H
#define ADAPTER_MAC_H

#include <stdint.h>

enum { RNIC_MAC_BYTES = 6 };

/* The same for the same machine, user and name, and another one for others, as far as chance
 * goes. */
void rnic_mac_of(const char *machine, uint32_t user, const char *name, uint8_t mac[RNIC_MAC_BYTES]);
/* Of this machine and user, and the path at which the adapter serves, so that others may write it
 * down (/etc/ethers). A path that is not absolute names no adapter: then the address is any. */
void rnic_mac_choose(const char *path, uint8_t mac[RNIC_MAC_BYTES]);

#endif
