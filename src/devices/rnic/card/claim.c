/* SPDX-License-Identifier: MIT */
/*
 * The table of claims. The card is not told when a request has ended: the oldest claim is replaced
 * by the next one. By then the request of the oldest claim has long been accepted, or its requester
 * repeats it.
 */
#include "devices/rnic/card/claim.h"

#include <string.h>

static bool is_for(const struct rnic_claim *row, const struct rnic_claim_key *key)
{
    return row->fn != 0 && row->serial == key->serial && row->peer_qp == key->peer_qp &&
           row->peer_fn == key->peer_fn && memcmp(row->peer_mac, key->peer_mac, sizeof(row->peer_mac)) == 0;
}

bool rnic_claim_find(const struct rnic_card *card, const struct rnic_claim_key *key, unsigned *fn)
{
    for (uint32_t i = 0; i < RNIC_CLAIMS; i++) {
        const struct rnic_claim *row = rnic_claim(card, i);
        if (is_for(row, key)) {
            *fn = row->fn - 1u;
            return true;
        }
    }
    return false;
}

void rnic_claim_forget(struct rnic_card *card, unsigned fn)
{
    for (uint32_t i = 0; i < RNIC_CLAIMS; i++) {
        struct rnic_claim *row = rnic_claim(card, i);
        if (row->fn == fn + 1) {
            memset(row, 0, sizeof(*row));
        }
    }
}

uint16_t rnic_claim_take(struct rnic_card *card, struct rnic_command *command)
{
    const struct rnic_claim_key key = {.peer_mac = command->bytes + RNIC_CMD_CLAIM_PEER_MAC,
                                       .peer_fn = rnic_command16(command, RNIC_CMD_CLAIM_PEER_FUNCTION),
                                       .peer_qp = rnic_command32(command, RNIC_CMD_CLAIM_PEER_QP),
                                       .serial = rnic_command32(command, RNIC_CMD_CLAIM_SERIAL)};
    unsigned fn;
    if (rnic_claim_find(card, &key, &fn)) {
        return fn == command->fn ? RNIC_STATUS_OK : RNIC_STATUS_IN_USE;
    }
    struct rnic_state *state = rnic_state(card);
    struct rnic_claim *row = rnic_claim(card, state->next_claim);
    state->next_claim = (state->next_claim + 1) % RNIC_CLAIMS;
    *row = (struct rnic_claim){.peer_fn = key.peer_fn,
                               .peer_qp = key.peer_qp,
                               .serial = key.serial,
                               .fn = (uint16_t)(command->fn + 1)};
    memcpy(row->peer_mac, key.peer_mac, sizeof(row->peer_mac));
    return RNIC_STATUS_OK;
}
