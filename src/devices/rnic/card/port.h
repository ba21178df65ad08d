/* SPDX-License-Identifier: MIT */
/*
 * What takes time in a card: engines, which do one operation after the other, and the ports of
 * memories, which move one run of bytes at a time. Engines work at the same time and wait for each
 * other at the ports that they share.
 */
#ifndef DEVICES_RNIC_CARD_PORT_H
#define DEVICES_RNIC_CARD_PORT_H

#include <stdint.h>

/* The port of a memory. */
struct rnic_port {
    uint64_t free; /* when it has moved what it was given */
    uint32_t rate; /* in millions of bytes in a second; 0: any number */
    uint32_t reserved;
};

/* An engine. */
struct rnic_engine {
    uint64_t free; /* when it has done what it has begun */
};

/* Returns the nanoseconds that `bytes` bytes take at the port. */
static inline uint64_t rnic_port_takes(const struct rnic_port *port, uint32_t bytes)
{
    return port->rate != 0 ? (uint64_t)bytes * 1000 / port->rate : 0;
}

/* Moves `bytes` bytes through the port, from `from` on or when it is free. Returns when they are
 * through. */
static inline uint64_t rnic_port_move(struct rnic_port *port, uint64_t from, uint32_t bytes)
{
    uint64_t takes = rnic_port_takes(port, bytes);
    uint64_t begins = port->free > from ? port->free : from;
    if (takes == 0) {
        return from;
    }
    port->free = begins + takes;
    return port->free;
}

#endif
