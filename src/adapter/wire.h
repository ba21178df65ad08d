/* SPDX-License-Identifier: MIT */
/*
 * What joins the card to others, by a text:
 *
 *   switch                                     nothing: the functions of this adapter reach each other alone
 *   udp:ADDRESS:PORT[,peer=[MAC@]ADDRESS:PORT] each frame in a datagram; a frame for a MAC that is not known goes to the peers without one
 *   packet:INTERFACE                           an Ethernet interface, with its MAC and MTU
 *   tap:INTERFACE                              a virtual interface of this host
 *
 * An IPv6 address stands in brackets. Which MAC is where is learnt from frames that pass the check.
 */
#ifndef ADAPTER_WIRE_H
#define ADAPTER_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os.h"

struct rnic_adapter_wire;

enum { RNIC_ADAPTER_WIRE_MAX_PEERS = 64, RNIC_ADAPTER_WIRE_DATAGRAM_MTU = 1400 };

struct rnic_adapter_wire_address {
    uint8_t mac[6]; /* of an interface, if there is one */
    bool has_mac;
    uint32_t mtu; /* bytes of a frame's payload; 0: it says nothing */
};

/* *out is NULL for "switch". EINVAL: not such a text; else the system's error. The last two are
 * what the wire has of its own. */
int rnic_adapter_wire_open(const char *text, struct rnic_adapter_wire **out,
                           struct rnic_adapter_wire_address *address);
void rnic_adapter_wire_close(struct rnic_adapter_wire *wire); /* NULL: nothing */
int rnic_adapter_wire_fd(const struct rnic_adapter_wire *wire);
/* A frame that the system does not take is lost, as on any wire. */
void rnic_adapter_wire_send(struct rnic_adapter_wire *wire, const uint8_t *frame, uint32_t bytes);
/* The next frame that has come, of `size` bytes at most; 0: none has. */
uint32_t rnic_adapter_wire_receive(struct rnic_adapter_wire *wire, uint8_t *frame, uint32_t size);
/* Its interface has been removed: nothing comes any more, though its descriptor is readable for
 * ever. */
bool rnic_adapter_wire_is_gone(const struct rnic_adapter_wire *wire);

struct rnic_adapter_wire_counters {
    uint64_t sent;
    uint64_t received;
    uint64_t lost; /* the system did not take them, or nobody knows where they are to go */
};
const struct rnic_adapter_wire_counters *rnic_adapter_wire_counted(const struct rnic_adapter_wire *wire);

#endif
