/* SPDX-License-Identifier: MIT */
/*
 * A function of the RDMA card with one raw queue pair, of which one queue is used: what a port and
 * its memory share. The queue's entries complete in the order in which they are posted. One thread.
 */
#ifndef VIPL_DM_RNIC_CARD_H
#define VIPL_DM_RNIC_CARD_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/rnic/verbs/verbs.h"
#include "dm/clock.h"
#include "dm/memory.h"
#include "vipl/device_memory.h"

/* Entries that are posted and not complete, at most; a power of two. */
#define DM_RNIC_POSTED 16384U

struct dm_rnic_card {
    struct vipl_rnic *rnic;
    const struct dm_clock *host; /* the system's, or a test's */
    struct vipl_rnic_pd pd;
    struct vipl_rnic_cq *cq;
    struct vipl_rnic_qp qp;
    struct vipl_rnic_mr memory; /* bytes 0: not registered yet */
    unsigned queue;             /* VIPL_RNIC_SQ or VIPL_RNIC_RQ */
    bool has_qp;
    bool is_halted;   /* the queue pair is in ERROR because it was sent there */
    int error;        /* 0, or why it is of no use any more */
    uint64_t posted;  /* entries, so far */
    uint64_t done;    /* of these */
    uint64_t seen_at; /* by the host's clock: when something was complete, or the card was asked */
};

/* Opens a card that the driver has opened, which is closed with it; also if this fails. */
int dm_rnic_card_open(struct dm_rnic_card *card, struct vipl_rnic *rnic, const struct dm_clock *host,
                      unsigned queue, struct vipl_dm_reason *reason);
/* No access to memory is under way afterwards. */
void dm_rnic_card_close(struct dm_rnic_card *card);

/* The card may use this memory. */
int dm_rnic_card_register(struct dm_rnic_card *card, void *at, uint64_t bytes, struct vipl_rnic_mr *mr,
                          struct vipl_dm_reason *reason);
/* Frames come and go from now on; or no more. */
int dm_rnic_card_begin(struct dm_rnic_card *card, struct vipl_dm_reason *reason);
void dm_rnic_card_halt(struct dm_rnic_card *card);

/* False: there is no room. */
bool dm_rnic_card_post(struct dm_rnic_card *card, const struct vipl_rnic_work *work);
/* Takes what is complete, at most `room` entries of the queue. Sets `error` if the card has
 * failed. */
unsigned dm_rnic_card_take(struct dm_rnic_card *card, struct vipl_rnic_completion *out, unsigned room);
/* Sleeps until there is something to be taken, or the card wants to run, at most so long. */
void dm_rnic_card_wait(struct dm_rnic_card *card, uint64_t nanoseconds);

#endif
