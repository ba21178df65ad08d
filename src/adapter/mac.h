/* SPDX-License-Identifier: MIT */
/* Chooses the card's MAC address, if neither the user nor a network interface has given one. */
#ifndef ADAPTER_MAC_H
#define ADAPTER_MAC_H

#include <stdint.h>

enum { RNIC_MAC_BYTES = 6 };

/* Derives the address from the machine, the user and a name: always the same for the same three,
 * and with high probability another one for others. */
void rnic_mac_of(const char *machine, uint32_t user, const char *name, uint8_t mac[RNIC_MAC_BYTES]);
/* Derives the address from this machine, this user and the path of the adapter's socket, so that it
 * can be written down (/etc/ethers). If the path is not absolute, the address is random. */
void rnic_mac_choose(const char *path, uint8_t mac[RNIC_MAC_BYTES]);

#endif
