/* SPDX-License-Identifier: MIT */
/*
 * A saved card as a file: what a card remembers, with the memory of its functions, between two of
 * its calls. The file is in the byte order of the CPU that has written it, and is read on CPUs of
 * either. docs/rnic/log.md specifies it.
 */
#ifndef RNIC_LOG_SAVED_H
#define RNIC_LOG_SAVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "devices/rnic/card/card.h"

/* The parts of a saved card. */
struct saved_card {
    struct rnic_card_config config;
    uint64_t number; /* of the record of the log that comes next */
    bool swaps;      /* a CPU of the other byte order has written it */
    uint8_t *area;
    uint8_t *bar2[RNIC_CARD_MAX_FUNCTIONS]; /* NULL: the function has none */
    uint8_t *bar4[RNIC_CARD_MAX_FUNCTIONS];
};

/* Returns an errno value. */
int saved_write(const char *path, const struct saved_card *card);
/* `pages` gives that number of zeroed bytes, or NULL; what it gave is in `card`, also after a
 * failure. Returns NULL, or what is wrong. */
const char *saved_read(const char *path, struct saved_card *card, uint8_t *(*pages)(size_t bytes));

#endif
