/* SPDX-License-Identifier: MIT */
/*
 * Claims say which program has a request. Each request has a claim word of 32 bits, which its
 * requester owns: a state, the number of the offer that the state is about, and a generation. The
 * words of a NIC handle lie in sealed memory, whose descriptor goes along with its requests. A
 * claim is a compare-and-exchange of the whole word: of several programs exactly one gets the
 * request, and a word that is used again cannot be mistaken for the old one.
 *
 *   PENDING      any program may claim the request
 *   BUSY         symmetric: the owner is answering another request
 *   TAKEN(n)     a program has claimed the request by offer n, and only this program may go on
 *   ACCEPTED(n)  that program has accepted; its reply is missing, and the requester cannot give up
 *   ENDED        the request is over
 *
 * The claimers change PENDING to TAKEN to ACCEPTED; the owner makes all other changes. A peer may
 * write any value: the owner has its own copy of the generation, and reads a word that breaks the
 * rules as ENDED.
 */
#ifndef VIPL_LOOPBACK_CLAIMS_H
#define VIPL_LOOPBACK_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os.h"
#include "os/os_atomic.h"

enum {
    LO_CLAIMS = 4096, /* the most requests that a NIC handle has at a time */
    LO_LAST_NUMBER = 255,
    LO_GENERATIONS = 1 << 21
};

enum lo_claim_state { LO_ENDED, LO_PENDING, LO_BUSY, LO_TAKEN, LO_ACCEPTED };

/* The claim words of a NIC handle's own requests. Guarded by the registry; the words themselves are
 * atomic. */
struct lo_claims {
    struct vipl_shm shm;             /* LO_CLAIMS words */
    uint32_t last;                   /* the slot that was given out last */
    bool used[LO_CLAIMS];            /* slots in use */
    uint32_t generations[LO_CLAIMS]; /* the latest generation of each slot */
};

/* The claim word of one request, as its owner knows it. */
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

/* Called by a program that has the offer of that number: lo_claim_take() claims the request, and
 * lo_claim_accept() accepts it. Return false if another program has it, or it is over. The
 * exchanges pair with each other and with the owner's changes. */
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

/* Gives a new request a word, which is PENDING. Returns false if all words are in use. */
bool vipl_lo_claim_begin(struct lo_claims *claims, struct lo_claim *claim);
/* Ends the request, and frees its word. */
void vipl_lo_claim_end(struct lo_claims *claims, const struct lo_claim *claim);
/* Makes the word PENDING in a new generation: earlier offers cannot claim the request any more. */
void vipl_lo_claim_renew(struct lo_claims *claims, struct lo_claim *claim);
/* Reads the word. A word that breaks the rules reads as LO_ENDED. */
uint32_t vipl_lo_claim_read(const struct lo_claim *claim);
/* The owner changes the word from the value `seen` to a state without a number. Returns false if
 * the word has another value by now. */
bool vipl_lo_claim_move(const struct lo_claim *claim, uint32_t seen, enum lo_claim_state to);
/* The owner changes the word between two states without a number. Returns false if it is in another
 * state. */
bool vipl_lo_claim_change(const struct lo_claim *claim, enum lo_claim_state from, enum lo_claim_state to);

/* Maps the words of a requester whose request was offered to this process, and returns the word of
 * the slot. `fd` stays the caller's. NULL: the memory or the slot is not valid. */
uint32_t *vipl_lo_claims_attach(struct vipl_shm *shm, int fd, uint16_t slot);

#endif
