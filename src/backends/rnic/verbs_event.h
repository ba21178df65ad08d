/* SPDX-License-Identifier: MIT */
/* The event ring, inside the driver. */
#ifndef BACKENDS_RNIC_VERBS_EVENT_H
#define BACKENDS_RNIC_VERBS_EVENT_H

#include <stdint.h>

#include "backends/rnic/verbs_slab.h"

enum { RNIC_EVENTS_LOG2 = 8 };

struct vipl_rnic;

struct rnic_events {
    struct rnic_block ring; /* constant */
    uint32_t consumer;      /* atomic, relaxed: written by the thread that takes events */
};

int vipl_rnic_events_open(struct vipl_rnic *rnic);

#endif
