/* SPDX-License-Identifier: MIT */
/*
 * A card for tests of the adapter, behind the functions of devices/rnic/card/card.h: it does at
 * once what a test writes into its registers. Configuration space is that of a PCI
 * Express function with BAR0, BAR2 and MSI-X, as the data sheet has it.
 */
#ifndef TESTS_ADAPTER_FAKE_CARD_H
#define TESTS_ADAPTER_FAKE_CARD_H

#include <stdbool.h>

struct rnic_card;

/* Registers of BAR0. */
enum {
    FAKE_ID = 0x000,       /* RNIC_ID_VALUE */
    FAKE_SCRATCH = 0x200,  /* 32 bytes that keep what is written */
    FAKE_IOVA = 0x220,     /* 64 bits */
    FAKE_BYTES = 0x228,    /* of a DMA, up to FAKE_BUFFER_BYTES */
    FAKE_COMMAND = 0x22C,  /* starts one of the commands below; it is executed in the next advance */
    FAKE_RESULT = 0x230,   /* of the last command: 1 done, 2 failed, 0 under way */
    FAKE_DONE = 0x234,     /* commands executed since the function began */
    FAKE_ATTACHES = 0x238, /* of this function, since power-up */
    FAKE_DOORBELL = 0x23C, /* the last send doorbell of queue pair 0 that was seen */
    FAKE_SLEEPS = 0x240,   /* how often the card fell asleep */
    FAKE_BUFFER = 0x10000, /* what DMA reads and writes */
    FAKE_BUFFER_BYTES = 0x20000
};

enum {
    FAKE_DMA_READ = 1, /* from the program's memory into the buffer */
    FAKE_DMA_WRITE,
    FAKE_PUBLISH,   /* the buffer's first word */
    FAKE_INTERRUPT, /* the vector in FAKE_BYTES */
    FAKE_CRAWL,     /* DMA_READ, a byte at a time */
    FAKE_TRANSMIT,  /* FAKE_BYTES of the buffer, as a frame */
    FAKE_REMOVE,    /* the card, as a fault does it */
    FAKE_LOSE       /* the function, likewise */
};

/* What the adapter has said last of the wire. */
bool fake_card_link_is_down(const struct rnic_card *card);

#endif
