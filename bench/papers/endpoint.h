/* SPDX-License-Identifier: MIT */
/*
 * One side of a connection, by the driver's verbs: a queue pair at Reliable Delivery with a
 * completion queue of its own, and memory that the other side may write. Whatever fails ends the
 * process with a message. One thread.
 */
#ifndef BENCH_ENDPOINT_H
#define BENCH_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/rnic/verbs/verbs.h"

struct endpoint {
    struct vipl_rnic *rnic;
    struct vipl_rnic_pd pd;
    struct vipl_rnic_cq *cq;
    struct vipl_rnic_qp qp;
    struct vipl_rnic_mr mr;
    uint8_t *memory;
    uint32_t bytes;  /* of the memory */
    bool owns;       /* the memory is this endpoint's own */
    uint64_t posted; /* RDMA Writes */
    uint64_t done;   /* of them, complete, in order */
    bool drained;
};

/* Ends the process if `error`, an errno value, is not 0. */
void endpoint_must(const char *what, int error);

/* Allocates memory of the card, which lives as long as the function is open. */
uint8_t *endpoint_device_memory(struct vipl_rnic *rnic, enum vipl_rnic_memory kind, uint32_t bytes);
/* `memory`: where; NULL: memory of its own. */
void endpoint_init(struct endpoint *end, struct vipl_rnic *rnic, uint32_t bytes, uint8_t *memory);
/* The queue pair ends, and what it had; the function stays open. */
void endpoint_fini(struct endpoint *end);
void endpoint_connect(struct endpoint *end, struct endpoint *peer);
/* Posts one RDMA Write from the beginning of the memory to that of the peer's. False: there is no
 * room until something is complete. */
bool endpoint_post(struct endpoint *end, const struct endpoint *peer, uint32_t bytes);
/* Takes what is complete, which must have succeeded, and in order. */
void endpoint_take(struct endpoint *end);

#endif
