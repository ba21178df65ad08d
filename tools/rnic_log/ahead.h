/* SPDX-License-Identifier: MIT */
/*
 * The records that a log has next, as far as they are read, for a card that does what they say
 * faster or slower than the log's card did, and not in the same pieces. What the host did, its
 * *acts*, divide the records. The card's DMA and interrupts are done when the card has done them.
 * A driver's store to a doorbell is an act where the log's card has seen it, because a card that
 * sees it earlier would read what the driver had not written then.
 */
#ifndef RNIC_LOG_AHEAD_H
#define RNIC_LOG_AHEAD_H

#include "image.h"
#include "read.h"
#include "rnic/registers.h"
#include "select.h"

enum { AHEAD_RECORDS = 4096 }; /* that are read ahead at most */

struct ahead_record {
    struct rnic_transaction c; /* `data` is allocated */
    uint64_t number;           /* in the log, from 1 on */
    /* bytes of a DMA, from its beginning on, that the card has done; of an interrupt, 1 if it has
     * fired */
    uint32_t done;
};

struct ahead {
    struct log_reader *reader;
    struct selection *selection; /* says where the log is to end */
    struct ahead_record *ring;   /* AHEAD_RECORDS, allocated */
    size_t begin;
    size_t count;
    uint64_t read; /* records of the log */
    size_t bytes;  /* of the data of what is in the ring */
    bool is_over;  /* the log has no more */
    bool is_out;   /* of memory */
    struct image memory;
    uint64_t reordered; /* writes that the card made before others that the log has first */
    /* Interrupts that came when the log has none: one of them may be one that the log has later. */
    uint32_t early[RNIC_CARD_MAX_FUNCTIONS][RNIC_VECTORS];
    uint64_t all_early;
};

/* Returns false if there is no memory. */
bool ahead_begin(struct ahead *ahead, struct log_reader *reader, struct selection *selection);
void ahead_end(struct ahead *ahead);

/* The next act, up to which there is nothing that the card has to do; NULL: the log is over, or
 * there is something, which is then in *missing. */
struct ahead_record *ahead_act(struct ahead *ahead, const struct ahead_record **missing);
/* The function of the first thing that the card does next, up to the next act or to what is
 * missing, of those for which `of` is true; RNIC_CARD_MAX_FUNCTIONS: there is none. */
unsigned ahead_turn(const struct ahead *ahead, const bool of[RNIC_CARD_MAX_FUNCTIONS]);
/* Drops the records up to and with the next act. Their DMA is in the memory afterwards. */
void ahead_pass(struct ahead *ahead);
/* The act behind the next one, if it is read; NULL otherwise. */
const struct ahead_record *ahead_second_act(const struct ahead *ahead);

/* Whether the host has done all that the log has: what the card does more is behind the log's
 * end. */
bool ahead_is_over(const struct ahead *ahead);

/* --- what the card does --- */

/* Copies the memory that the log's card has read or written there. *is_refused: the log has refused
 * this DMA. Returns false if some of the bytes are not known. */
bool ahead_read(struct ahead *ahead, unsigned fn, uint64_t address, uint8_t *out, uint32_t bytes,
                bool *is_refused);
/* Returns true if the log has such a write. If not, *other is the record that it should have been;
 * NULL: the log has none to these addresses. */
bool ahead_write(struct ahead *ahead, unsigned fn, uint64_t address, const uint8_t *data, uint32_t bytes,
                 const struct ahead_record **other);
/* Returns false if there is no such vector. When a completion comes before a driver asks for the
 * next interrupt, and not behind, the interrupt comes at another place. */
bool ahead_interrupt(struct ahead *ahead, unsigned fn, uint64_t vector);

#endif
