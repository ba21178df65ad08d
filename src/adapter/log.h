/* SPDX-License-Identifier: MIT */
/*
 * The transaction log: every bus transaction and frame of the card, with the card's time, as
 * docs/rnic/log.md specifies. A file whose name ends in .txt gets one line of text for each; any
 * other file is in the format pcapng, which Wireshark opens.
 */
#ifndef ADAPTER_LOG_H
#define ADAPTER_LOG_H

#include "devices/rnic/card/card.h"

struct rnic_log;

enum {
    RNIC_LOG_VERSION = 1,
    RNIC_LOG_HEAD_BYTES = 28, /* header of a transaction that is not a frame */
    /* link type of such transactions in pcapng: the first for private use */
    RNIC_LOG_LINK_TYPE = 147
};

/* Returns an errno value. */
int rnic_log_open(const char *path, struct rnic_log **out);
/* `log` may be NULL. */
void rnic_log_close(struct rnic_log *log);
void rnic_log_write(struct rnic_log *log, const struct rnic_transaction *transaction);
/* Makes everything that was logged readable by other processes. */
void rnic_log_flush(struct rnic_log *log);
/* Returns the first error since the log was opened, an errno value, or 0. Nothing is written after
 * an error. */
int rnic_log_error(const struct rnic_log *log);

#endif
