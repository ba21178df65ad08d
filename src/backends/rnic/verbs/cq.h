/* SPDX-License-Identifier: MIT */
/* A completion queue, inside the driver. */
#ifndef BACKENDS_RNIC_VERBS_CQ_H
#define BACKENDS_RNIC_VERBS_CQ_H

#include "backends/rnic/verbs/slab.h"
#include "backends/rnic/verbs/verbs.h"

/* The thread that takes completions owns the fields that have no comment on access. */
struct vipl_rnic_cq {
    struct vipl_rnic *rnic; /* constant */
    uint32_t number;        /* constant */
    unsigned vector;        /* constant */
    unsigned log2;
    struct rnic_block ring;
    /* the ring before the queue grew, with the entries before `old_end`, until they are taken;
     * base NULL: none */
    struct rnic_block old;
    unsigned old_log2;
    uint32_t old_end;
    uint32_t consumer;
    uint32_t arm_count;
    uint32_t room; /* atomic: entries that are not reserved */
};

/* Returns true if an entry can be reserved now. */
bool vipl_rnic_cq_has_room(const struct vipl_rnic_cq *cq);

#endif
