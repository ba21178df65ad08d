/* SPDX-License-Identifier: MIT */
/* A completion queue, inside the driver. */
#ifndef BACKENDS_RNIC_VERBS_CQ_H
#define BACKENDS_RNIC_VERBS_CQ_H

#include "backends/rnic/verbs/slab.h"
#include "backends/rnic/verbs/verbs.h"

/* Fields without a remark belong to the thread that takes completions. */
struct vipl_rnic_cq {
    struct vipl_rnic *rnic; /* constant */
    uint32_t number;        /* constant */
    unsigned vector;        /* constant */
    unsigned log2;
    struct rnic_block ring;
    struct rnic_block
        old; /* where entries before `old_end` are, until they have been taken; none: base NULL */
    unsigned old_log2;
    uint32_t old_end;
    uint32_t consumer;
    uint32_t arm_count;
    uint32_t room; /* atomic: entries that are not promised to any work */
};

/* Whether room for a completion can be had now. */
bool vipl_rnic_cq_has_room(const struct vipl_rnic_cq *cq);

#endif
