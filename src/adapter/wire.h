/* SPDX-License-Identifier: MIT */
/*
 * The wire, which joins the card to other cards. A text names it:
 *
 *   switch          no wire: the functions of this adapter reach only each other
 *   udp:ADDRESS:PORT[,peer=[MAC@]ADDRESS:PORT]
 *                   each frame in a datagram; a frame for an unknown MAC goes to the peers that
 *                   have no MAC
 *   packet:INTERFACE
 *                   an Ethernet interface, with its MAC and MTU
 *   tap:INTERFACE   a virtual interface of this host
 *
 * An IPv6 address is written in brackets. The wire learns the place of a MAC from valid frames.
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
    uint32_t mtu; /* bytes of a frame's payload; 0: not known */
};

/* Opens a wire. `is_raw`: frames of every type are wanted, for any address; otherwise an
 * interface takes those of EFE alone. *out is NULL for "switch". *address: the MAC and the MTU of
 * the wire itself. EINVAL: the text names no wire. Other values are the system's errors. */
int rnic_adapter_wire_open(const char *text, bool is_raw, struct rnic_adapter_wire **out,
                           struct rnic_adapter_wire_address *address);
/* `wire` may be NULL. */
void rnic_adapter_wire_close(struct rnic_adapter_wire *wire);
/* Returns the descriptor that is readable when a frame has arrived. */
int rnic_adapter_wire_fd(const struct rnic_adapter_wire *wire);
/* Sends a frame. A frame that the system does not accept is lost, as on any wire. */
void rnic_adapter_wire_send(struct rnic_adapter_wire *wire, const uint8_t *frame, uint32_t bytes);
/* Stores the next frame that has arrived, of at most `size` bytes, and returns its length; 0:
 * none. */
uint32_t rnic_adapter_wire_receive(struct rnic_adapter_wire *wire, uint8_t *frame, uint32_t size);
/* Returns true if the interface of the wire was removed: no frame arrives any more, but the
 * descriptor stays readable. */
bool rnic_adapter_wire_is_gone(const struct rnic_adapter_wire *wire);

struct rnic_adapter_wire_counters {
    uint64_t sent;
    uint64_t received;
    uint64_t lost; /* frames that the system did not accept, or whose destination is unknown */
};
const struct rnic_adapter_wire_counters *rnic_adapter_wire_counted(const struct rnic_adapter_wire *wire);

#endif
