/* SPDX-License-Identifier: MIT */
/*
 * The transaction log: every bus transaction and frame of the card, with the card's time, as
 * docs/rnic/log.md specifies. A file whose name ends in .txt gets one line of text for each; any
 * other file is in the format pcapng, which Wireshark opens.
 */
#ifndef ADAPTER_LOG_H
#define ADAPTER_LOG_H

#include <stdbool.h>
#include <stdio.h>

#include "devices/rnic/card/card.h"

/* A log, which one thread writes. */
struct rnic_log {
    FILE *file; /* NULL: none is kept */
    bool is_text;
    int error; /* the first one, an errno value; nothing is written after it */
};

enum {
    RNIC_LOG_VERSION = 1,
    RNIC_LOG_HEAD_BYTES = 28, /* header of a transaction that is not a frame */
    /* link type of such transactions in pcapng: the first for private use */
    RNIC_LOG_LINK_TYPE = 147
};

/* Returns an errno value; then none is kept. */
int rnic_log_open(struct rnic_log *log, const char *path);
/* Begins a log in a file that is open for writing, and is closed with the log. */
void rnic_log_to(struct rnic_log *log, FILE *file, bool is_text);
/* Whether the name of a file asks for text. */
bool rnic_log_is_text(const char *path);
void rnic_log_close(struct rnic_log *log);
void rnic_log_write(struct rnic_log *log, const struct rnic_transaction *transaction);
/* Makes everything that was logged readable by other processes. */
void rnic_log_flush(struct rnic_log *log);
/* Returns the first error since the log was opened, an errno value, or 0. Nothing is written after
 * an error. */
int rnic_log_error(const struct rnic_log *log);
/* The name of a kind, as the text has it. */
const char *rnic_log_kind(enum rnic_transaction_kind kind);

#endif
