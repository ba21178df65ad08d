/* SPDX-License-Identifier: MIT */
/* Claim words: giving them out, reading them, and the changes of their owner. */
#include "backends/loopback/claims.h"

/* A word that was never used is 0: generation 0, ENDED. */
void vipl_lo_claim_renew(struct lo_claims *claims, struct lo_claim *claim)
{
    uint32_t *generation = &claims->generations[claim->slot];
    *generation = (*generation + 1) % LO_GENERATIONS;
    claim->generation = *generation;
    /* pairs with lo_claim_take */
    vipl_store_ordered(claim->word, lo_claim_word(*generation, LO_PENDING, 0));
}

bool vipl_lo_claim_begin(struct lo_claims *claims, struct lo_claim *claim)
{
    for (uint32_t i = 1; i <= LO_CLAIMS; i++) {
        uint32_t slot = (claims->last + i) % LO_CLAIMS;
        if (!claims->used[slot]) {
            claims->used[slot] = true;
            claims->last = slot;
            claim->slot = (uint16_t)slot;
            claim->word = (uint32_t *)claims->shm.base + slot;
            vipl_lo_claim_renew(claims, claim);
            return true;
        }
    }
    return false;
}

void vipl_lo_claim_end(struct lo_claims *claims, const struct lo_claim *claim)
{
    /* pairs with lo_claim_take */
    vipl_store_ordered(claim->word, lo_claim_word(claim->generation, LO_ENDED, 0));
    claims->used[claim->slot] = false;
}

uint32_t vipl_lo_claim_read(const struct lo_claim *claim)
{
    uint32_t word = vipl_load_ordered(claim->word); /* pairs with lo_claim_take */
    enum lo_claim_state state = lo_claim_state_of(word);
    bool numbered = state == LO_TAKEN || state == LO_ACCEPTED;
    bool valid = word == lo_claim_word(claim->generation, state, lo_claim_number_of(word)) &&
                 state <= LO_ACCEPTED && (lo_claim_number_of(word) != 0) == numbered;
    return valid ? word : lo_claim_word(claim->generation, LO_ENDED, 0);
}

bool vipl_lo_claim_move(const struct lo_claim *claim, uint32_t seen, enum lo_claim_state to)
{
    return vipl_compare_exchange(claim->word, seen, lo_claim_word(claim->generation, to, 0));
}

bool vipl_lo_claim_change(const struct lo_claim *claim, enum lo_claim_state from, enum lo_claim_state to)
{
    return vipl_lo_claim_move(claim, lo_claim_word(claim->generation, from, 0), to);
}

uint32_t *vipl_lo_claims_attach(struct vipl_shm *shm, int fd, uint16_t slot)
{
    bool attached =
        fd >= 0 && slot < LO_CLAIMS && vipl_shm_attach(shm, fd, LO_CLAIMS * sizeof(uint32_t), true) == 0;
    shm->fd = -1; /* the mapping does not need it, and the caller closes it */
    return attached ? (uint32_t *)shm->base + slot : NULL;
}
