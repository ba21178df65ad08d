/* SPDX-License-Identifier: MIT */
/*
 * Claims: which program has a request. Each request has a word of 32 bits that its requester owns: state, the number of the
 * connection (or of the offer within the process) that the state is about, generation. The words of a NIC handle lie in
 * sealed memory whose descriptor goes along with its requests. Every change is a compare-and-exchange of the whole word, so
 * that of several programs one gets the request, and a word that is used again cannot be taken for the old one.
 *
 *   PENDING      any program may claim it
 *   BUSY         symmetric: its owner is answering another request
 *   TAKEN(n)     a program has it, over connection n, and only that one may go on
 *   ACCEPTED(n)  only the reply is missing; the requester cannot give up
 *   ENDED        the request is over
 *
 * Claimers change PENDING to TAKEN to ACCEPTED, the owner does the rest. A peer may write what it likes: the owner keeps the
 * generation for itself and believes a word only where it makes sense.
 */
#ifndef VIPL_LOOPBACK_CLAIMS_H
#define VIPL_LOOPBACK_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os.h"
#include "os/os_atomic.h"

enum {
    LO_CLAIMS = 4096, /* requests of a NIC handle at a time */
    LO_LAST_NUMBER = 255,
    LO_GENERATIONS = 1 << 21
};

enum lo_claim_state { LO_ENDED, LO_PENDING, LO_BUSY, LO_TAKEN, LO_ACCEPTED };

/* The words of a NIC handle, for its own requests. Guarded by the registry; the words themselves are atomic. */
struct lo_claims {
    struct vipl_shm shm;             /* LO_CLAIMS words */
    uint32_t last;                   /* slot that was given out */
    bool used[LO_CLAIMS];            /* slots */
    uint32_t generations[LO_CLAIMS]; /* the latest of each slot */
};

/* The word of one request, as its owner knows it. */
struct lo_claim {
    uint32_t *word;
    uint32_t generation;
    uint16_t slot;
};

static inline uint32_t lo_claim_word(uint32_t generation, enum lo_claim_state state, unsigned number)
{
    return generation << 11 | (uint32_t)number << 3 | (uint32_t)state;
}
static inline enum lo_claim_state lo_claim_state_of(uint32_t word)
{
    return (enum lo_claim_state)(word & 7);
}
static inline unsigned lo_claim_number_of(uint32_t word)
{
    return word >> 3 & LO_LAST_NUMBER;
}

/* A program gets the request over the connection of that number; and accepts it. False: another one has it, or it is over.
 * These pair with each other, and with the owner's changes. */
static inline bool lo_claim_take(uint32_t *word, uint32_t generation, unsigned number)
{
    return vipl_compare_exchange(word, lo_claim_word(generation, LO_PENDING, 0),
                                 lo_claim_word(generation, LO_TAKEN, number));
}
static inline bool lo_claim_accept(uint32_t *word, uint32_t generation, unsigned number)
{
    return vipl_compare_exchange(word, lo_claim_word(generation, LO_TAKEN, number),
                                 lo_claim_word(generation, LO_ACCEPTED, number));
}

/* A word for a new request, PENDING. False: there are too many. */
bool vipl_lo_claim_begin(struct lo_claims *claims, struct lo_claim *claim);
void vipl_lo_claim_end(struct lo_claims *claims, const struct lo_claim *claim);
/* The same word's next generation: no connection of before can claim it any more. */
void vipl_lo_claim_renew(struct lo_claims *claims, struct lo_claim *claim);
/* The word as it is now. One that breaks the rules reads as LO_ENDED. */
uint32_t vipl_lo_claim_read(const struct lo_claim *claim);
/* The owner takes the word, as it was read, to that state, without a number. False: it has changed since. */
bool vipl_lo_claim_move(const struct lo_claim *claim, uint32_t seen, enum lo_claim_state to);
/* Likewise, from a state that has no number. False: the word is in another state. */
bool vipl_lo_claim_change(const struct lo_claim *claim, enum lo_claim_state from, enum lo_claim_state to);

/* A requester's words, mapped by a program that the request was offered to; fd stays the caller's. NULL: they are not what
 * they should be. */
uint32_t *vipl_lo_claims_attach(struct vipl_shm *shm, int fd, uint16_t slot);

#endif
