/* SPDX-License-Identifier: MIT */
/*
 * Codec of the bus protocol: the transactions of a card's bus as a stream of bytes. One end is the
 * host, which has memory; the other end is the card. docs/rnic/socket.md specifies the protocol.
 * Pure functions, without I/O.
 */
#ifndef BUS_MESSAGE_H
#define BUS_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rnic_bus_kind {
    BUS_HELLO = 1, /* the first message of each end */
    BUS_READ,      /* host to card, answered by DONE: a register or configuration space */
    BUS_WRITE,     /* host to card, not answered */
    BUS_RESET,     /* host to card, answered by DONE: function-level reset */
    BUS_DONE,      /* card to host */
    BUS_DMA_READ,  /* card to host, answered by DMA_DATA */
    BUS_DMA_DATA,  /* host to card */
    BUS_DMA_WRITE, /* card to host, not answered */
    BUS_INTERRUPT, /* card to host, not answered */
    BUS_BYE        /* the last message of an end that ends in order */
};

enum {
    BUS_HEADER_BYTES = 40, /* data may follow */
    BUS_BARS = 6,
    BUS_CONFIG = 7,                      /* `space`: configuration space; below BUS_BARS: that BAR */
    BUS_CARD_HELLO_BYTES = 8 * BUS_BARS, /* data of the card's HELLO: the sizes of its BARs */
    BUS_MAX_DMA = 4096,                  /* bytes of one DMA */
    BUS_MAX_BYTES = BUS_HEADER_BYTES + BUS_MAX_DMA, /* of a message */
    BUS_MAX_DMA_READS = 32,                         /* that a card may have sent and that are not answered */
    BUS_MAX_WRITES = 256,                           /* that a host may have sent since the last DONE */
    BUS_VERSION = 1
};
static const uint32_t BUS_MAGIC = 0x53554256; /* `id` of a HELLO: "VBUS" */

struct rnic_bus_message {
    uint32_t bytes;    /* of the whole message */
    uint16_t kind;     /* enum rnic_bus_kind */
    uint16_t function; /* of the card */
    uint64_t time;     /* nanoseconds on the sender's clock; 0: none. For people, not for the peer */
    uint32_t id;       /* chosen by who asks; the answer repeats it */
    uint16_t width;    /* bytes of a register access: 1, 2, 4 or 8 */
    uint8_t space;     /* of a register access */
    uint8_t status;    /* of an answer: 0 done, 1 refused */
    uint64_t address;  /* in the space, or in the host's memory */
    uint64_t value;    /* of a register; the length of a DMA_READ; the vector of an interrupt */
};

void rnic_bus_message_write(uint8_t out[BUS_HEADER_BYTES], const struct rnic_bus_message *message);
void rnic_bus_message_read(const uint8_t in[BUS_HEADER_BYTES], struct rnic_bus_message *out);

/* Returns NULL if the peer may send this header, whatever the state of the connection; otherwise
 * what is wrong with it, as a text for people. `from_card`: the card is the peer. */
const char *rnic_bus_message_check(const struct rnic_bus_message *message, bool from_card);

#endif
