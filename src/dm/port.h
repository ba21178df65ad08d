/* SPDX-License-Identifier: MIT */
/*
 * Where packets leave and arrive. A kind is a table of operations in a file of its own
 * (port_packet.c, port_plugin.c, rnic/port_rnic.c). A port takes packets to be sent from memory
 * that stays as it is until completed() says so; it fills slots in the order in which they are
 * posted. Operations that are called optional may be NULL.
 */
#ifndef VIPL_DM_PORT_H
#define VIPL_DM_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "vipl/device_memory.h"

/* Packets that one call of an operation moves. */
#define DM_BATCH 64U

enum dm_port_direction { DM_SEND, DM_RECEIVE };

struct dm_packet {
    const uint8_t *at;
    uint32_t bytes;
    uint64_t launch; /* when it is to leave, by the port's launch clock; 0: at once */
};

/* What became of the packets that a port with a launch clock has taken. */
struct dm_sent {
    uint64_t refused; /* so far: they have not left, because the port sends no such packets */
    uint64_t refused_bytes;
    uint64_t last;    /* when the last one left, by the launch clock */
    uint64_t late_ns; /* the longest time by which one left after its launch time */
    int error;        /* 0, or an errno value: the port has failed, and sends no more */
};

/* A slot that has been filled. */
struct dm_arrival {
    uint64_t time;     /* nanoseconds since 1970 */
    uint32_t bytes;    /* in the slot */
    uint32_t original; /* that the packet had */
};

/* What became of the first packet that send() has not taken. */
enum dm_send_end {
    DM_SEND_ALL,     /* there is no such packet */
    DM_SEND_FULL,    /* the port has no room now */
    DM_SEND_REFUSED, /* the port will never take it */
    DM_SEND_FAILED   /* the port has failed: errno says why */
};

struct dm_clock;
struct dm_memory;
struct dm_port;

struct dm_port_kind {
    const char *name;
    const char *needs_main; /* why packets must be in main memory, or NULL */
    int (*open)(const char *argument, enum dm_port_direction direction, struct dm_port **port,
                struct vipl_dm_reason *reason);
    void (*close)(struct dm_port *port);
    /* Optional. All packets will be in this memory, which stays until the port is closed. */
    int (*attach)(struct dm_port *port, struct dm_memory *memory, struct vipl_dm_reason *reason);
    /* Optional. From now on packets arrive; slots are posted already. */
    int (*begin)(struct dm_port *port, struct vipl_dm_reason *reason);
    /* Takes packets, at most DM_BATCH; returns how many it has taken. */
    unsigned (*send)(struct dm_port *port, const struct dm_packet *packets, unsigned count,
                     enum dm_send_end *end);
    /* How many of the packets taken are done with, the first ones. Their memory is the caller's. */
    uint64_t (*completed)(struct dm_port *port);
    /* Optional, and there if the port has a launch clock. */
    void (*sent)(struct dm_port *port, struct dm_sent *out);
    /* A slot, where the port writes at most `room` bytes. False: it has as many as it can have. */
    bool (*post)(struct dm_port *port, uint8_t *at, uint32_t room);
    /* The slots that are filled, at most `room` and DM_BATCH, the oldest first; or a negative errno
     * value. */
    int (*receive)(struct dm_port *port, struct dm_arrival *arrivals, unsigned room);
    /* Packets that were dropped since the last call. */
    uint64_t (*dropped)(struct dm_port *port);
    /* Waits for a packet, or for room, at most so long; returns early on a signal. */
    void (*wait)(struct dm_port *port, uint64_t nanoseconds);
    /* From now on nothing arrives; what has arrived can be received. */
    void (*halt)(struct dm_port *port);
};

/* Does not change from open to close. */
struct dm_port {
    const struct dm_port_kind *kind;
    uint32_t longest;  /* frame, in bytes, without CRC */
    uint32_t least;    /* bytes that each slot must have room for */
    char name[64];     /* of the interface in the capture */
    const char *clock; /* whose time stamps */
    /* The port lets packets leave at their launch times; NULL: the caller does. The clock says up
     * to which time packets are to be handed over; it is 0 until the first packet has left. */
    const struct dm_clock *launch_clock;
    char text[160]; /* for --explain */
};

int dm_port_open(const char *name, enum dm_port_direction direction, struct dm_port **port,
                 struct vipl_dm_reason *reason);
void dm_port_close(struct dm_port *port); /* does nothing for NULL */

extern const struct dm_port_kind dm_port_dpdk;
extern const struct dm_port_kind dm_port_packet;
extern const struct dm_port_kind dm_port_rnic; /* where the driver of the card is built */

#endif
