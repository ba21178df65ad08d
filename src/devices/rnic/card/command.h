/* SPDX-License-Identifier: MIT */
/* A command, as the functions that execute it see it. */
#ifndef DEVICES_RNIC_CARD_COMMAND_H
#define DEVICES_RNIC_CARD_COMMAND_H

#include "devices/rnic/card/state.h"
#include "rnic/entry.h"

struct rnic_answer {
    uint32_t info;
    uint32_t length;
    uint32_t immediate;
};

/* A command as it was copied from the ring. A command's function returns its status: a value of
 * STATUS, or RNIC_COMMAND_WAITS. */
struct rnic_command {
    uint8_t bytes[RNIC_COMMAND_BYTES];
    bool big;
    unsigned fn;
    uint32_t object;
    struct rnic_answer answer;
};
enum { RNIC_COMMAND_WAITS = 0xFFFF }; /* it is to be executed again later */

static inline uint16_t rnic_command16(const struct rnic_command *command, unsigned at)
{
    return rnic_get16(command->bytes + at, command->big);
}
static inline uint32_t rnic_command32(const struct rnic_command *command, unsigned at)
{
    return rnic_get32(command->bytes + at, command->big);
}
static inline uint64_t rnic_command64(const struct rnic_command *command, unsigned at)
{
    return rnic_get64(command->bytes + at, command->big);
}

/* The command waits until then at the longest. */
static inline void rnic_command_until(const struct rnic_card *card, uint64_t time)
{
    struct rnic_state *state = rnic_state(card);
    state->control_due = time < state->control_due ? time : state->control_due;
}

/* --- qp_command.c: the commands about queue pairs --- */

uint16_t rnic_qp_create(struct rnic_card *card, struct rnic_command *command);
uint16_t rnic_qp_modify(struct rnic_card *card, struct rnic_command *command);
uint16_t rnic_qp_set_ring(struct rnic_card *card, struct rnic_command *command);
uint16_t rnic_qp_destroy(struct rnic_card *card, struct rnic_command *command);
uint16_t rnic_qp_query(struct rnic_card *card, struct rnic_command *command);

#endif
