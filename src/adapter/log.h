/* SPDX-License-Identifier: MIT */
/*
 * The transaction log: everything that crosses the card's edge, with the model's time, as
 * docs/rnic/log.md has it: text, one line each, in a file whose name ends in .txt, else pcapng,
 * which Wireshark opens.
 */
#ifndef ADAPTER_LOG_H
#define ADAPTER_LOG_H

#include "devices/rnic/card/card.h"

struct rnic_log;

enum {
    RNIC_LOG_VERSION = 1,
    RNIC_LOG_HEAD_BYTES = 28, /* in front of the data of a transaction that is not a frame */
    RNIC_LOG_LINK_TYPE = 147  /* of them, in pcapng: the first of those for private use */
};

int rnic_log_open(const char *path, struct rnic_log **out); /* an errno value */
void rnic_log_close(struct rnic_log *log);                  /* NULL: nothing */
void rnic_log_write(struct rnic_log *log, const struct rnic_transaction *transaction);
/* What was written so far can be read by others. */
void rnic_log_flush(struct rnic_log *log);
/* What has gone wrong since the log was opened: 0, or an errno value; nothing is written after
 * that. */
int rnic_log_error(const struct rnic_log *log);

#endif
