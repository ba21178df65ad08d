/* SPDX-License-Identifier: MIT */
/* What of the card's interface some logs have touched, and the names of what they never did. */
#ifndef RNIC_LOG_COVERAGE_H
#define RNIC_LOG_COVERAGE_H

#include <stdio.h>

#include "rings.h"

struct coverage;

/* Returns NULL if there is no memory. */
struct coverage *coverage_new(void);
void coverage_free(struct coverage *coverage);
/* Another log begins: other functions with other queue pairs. */
void coverage_begin(struct coverage *coverage);
/* `entry`: of rings_follow(), or NULL. */
void coverage_add(struct coverage *coverage, const struct rnic_transaction *c,
                  const struct ring_entry *entry);
void coverage_print(const struct coverage *coverage, FILE *to);
/* The same as one JSON object. */
void coverage_print_json(const struct coverage *coverage, FILE *to);

#endif
