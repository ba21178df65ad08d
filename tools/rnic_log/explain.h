/* SPDX-License-Identifier: MIT */
/* Transactions in words: what register, which entry of which ring, which frame. */
#ifndef RNIC_LOG_EXPLAIN_H
#define RNIC_LOG_EXPLAIN_H

#include <stdio.h>

#include "rings.h"

/* One line. `entry`: of rings_follow(), or NULL. */
void explain(FILE *to, const struct rnic_transaction *c, const struct ring_entry *entry);

#endif
