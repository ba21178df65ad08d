/* SPDX-License-Identifier: MIT */
/* Completion queues. */
#ifndef DEVICES_RNIC_CARD_CQ_H
#define DEVICES_RNIC_CARD_CQ_H

#include "devices/rnic/card/command.h"
#include "devices/rnic/card/state.h"

/* A completion entry, or the answer to a command. */
struct rnic_completion {
    uint32_t qp;
    uint32_t cookie;
    uint32_t length;
    uint32_t immediate;
    uint32_t time_high;
    uint32_t info;
    uint16_t status;
    uint8_t opcode;
    uint8_t flags;
};

/* Writes the entry `index` of a ring but for its OWNER word. False: refused. */
bool rnic_completion_write(struct rnic_card *card, unsigned fn, uint32_t object, const struct rnic_ring *ring,
                           uint32_t index, const struct rnic_completion *completion);
/* Writes the OWNER word. */
bool rnic_completion_publish(struct rnic_card *card, unsigned fn, uint32_t object,
                             const struct rnic_ring *ring, uint32_t index);

/* Completes: the entry, its OWNER word, the interrupt if the queue is armed. */
void rnic_cq_complete(struct rnic_card *card, uint32_t cq, const struct rnic_completion *completion);
/* Its doorbell may have changed. */
void rnic_cq_look(struct rnic_card *card, uint32_t cq);
/* Entries that a fault has kept back until now are published. */
void rnic_cq_advance(struct rnic_card *card);
void rnic_cq_free(struct rnic_card *card, uint32_t cq);

/* Commands. */
uint16_t rnic_cq_create(struct rnic_card *card, struct rnic_command *command);
uint16_t rnic_cq_resize(struct rnic_card *card, struct rnic_command *command);
uint16_t rnic_cq_destroy(struct rnic_card *card, struct rnic_command *command);

#endif
