/* SPDX-License-Identifier: MIT */
/* An opened function: what the files of the driver share. */
#ifndef BACKENDS_RNIC_VERBS_FUNCTION_H
#define BACKENDS_RNIC_VERBS_FUNCTION_H

#include "backends/rnic/verbs/command.h"
#include "backends/rnic/verbs/memory.h"
#include "backends/rnic/verbs/slab.h"
#include "backends/rnic/verbs/verbs.h"
#include "os/os_atomic.h"

enum { RNIC_REALMS = 65536, RNIC_EVENTS_LOG2 = 8 };

/* The ring of events (event.c). */
struct rnic_events {
    struct rnic_block ring; /* constant */
    uint32_t consumer;      /* atomic, relaxed: written by the thread that takes events */
};

struct vipl_rnic {
    struct rnic_pci *pci;       /* constant */
    struct vipl_rnic_caps caps; /* constant */
    /* constant: whether this processor, and so the rings, are big-endian */
    bool big;
    /* constant: vipl_fork_generation() of the process that opened the function */
    uint32_t generation;
    /* atomic, relaxed: the card is gone or does not answer; never 0 again */
    uint32_t dead;
    uint32_t realms[RNIC_REALMS / 32]; /* atomic: a bit for each realm in use */
    /* atomic, relaxed: where the search for a free realm begins */
    uint32_t last_realm;
    /* constant once something is posted: the longest message that goes by a window; 0: none */
    uint32_t window_bytes;
    struct rnic_slabs slabs;
    struct rnic_memory memory;
    struct rnic_commands commands;
    struct rnic_events events;
};

static inline uint32_t rnic_register(struct vipl_rnic *rnic, uint32_t offset)
{
    return rnic->pci->ops->read(rnic->pci, 0, offset);
}

/* Rings a doorbell: steps 2 to 5 of section 4 of the data sheet. The caller has written the
 * entries. `hint`: offset of the hint byte; 0: none. */
void vipl_rnic_ring(struct vipl_rnic *rnic, uint32_t doorbell, uint32_t value, uint32_t hint);
/* Stores a word of BAR2, without waking the card. */
void vipl_rnic_store(struct vipl_rnic *rnic, uint32_t doorbell, uint32_t value);

/* Sets a hint byte, without waking the card. */
void vipl_rnic_hint(struct vipl_rnic *rnic, uint32_t hint);

static inline uint32_t rnic_qp_doorbell(uint32_t qp, uint32_t field)
{
    return RNIC_DB_QP + qp * 64 + field;
}
static inline uint32_t rnic_qp_hint(uint32_t qp)
{
    return RNIC_DB_QP_HINTS + qp / RNIC_GROUP;
}
static inline uint32_t rnic_cq_doorbell(uint32_t cq, uint32_t field)
{
    return RNIC_DB_CQ + cq * 64 + field;
}
static inline uint32_t rnic_cq_hint(uint32_t cq)
{
    return RNIC_DB_CQ_HINTS + cq / RNIC_GROUP;
}

/* The word by which the card says that an entry is there; the driver and the card have the same
 * byte order. */
static inline uint32_t rnic_owner(const uint8_t *word)
{
    /* pairs with the card's store, release */
    return vipl_load_acquire((const uint32_t *)(const void *)word);
}

/* event.c: allocates the ring of events. ENOMEM. */
int vipl_rnic_events_open(struct vipl_rnic *rnic);

/*
 * post.c: the lists of segments that lie outside of work entries. vipl_rnic_drop_lists() frees
 * those of the entries from `first` to before `end`. vipl_rnic_prepare_lists() makes sure that
 * memory for the next list is there. ENOMEM.
 */
void vipl_rnic_drop_lists(struct vipl_rnic *rnic, struct vipl_rnic_queue *queue, uint32_t first,
                          uint32_t end);
int vipl_rnic_prepare_lists(struct vipl_rnic *rnic, struct vipl_rnic_queue *queue);

#endif
