/* SPDX-License-Identifier: MIT */
/* Which transactions of a log are wanted. */
#ifndef RNIC_LOG_SELECT_H
#define RNIC_LOG_SELECT_H

#include "options.h"
#include "rings.h"

struct selection {
    const struct log_options *options;
    bool begun;
    bool over;       /* nothing that comes later is wanted */
    uint64_t number; /* of the transaction that was looked at last, from 1 on */
    uint64_t from;
    uint64_t until;
};

void select_begin(struct selection *selection, const struct log_options *options);
/* `entry`: of rings_follow(), or NULL. */
bool select_wants(struct selection *selection, const struct rnic_transaction *c,
                  const struct ring_entry *entry);

#endif
