/* SPDX-License-Identifier: MIT */
/* The AOTF space of BAR0: stores of the driver's processor that become small RDMA Writes. */
#ifndef DEVICES_RNIC_CARD_AOTF_H
#define DEVICES_RNIC_CARD_AOTF_H

#include "devices/rnic/card/command.h"
#include "devices/rnic/card/schedule.h"
#include "devices/rnic/card/state.h"

/* The command SET_TEMPLATE. */
uint16_t rnic_aotf_set_template(struct rnic_card *card, struct rnic_command *command);

/* Returns true if this offset of BAR0 lies in the AOTF space. */
static inline bool rnic_aotf_has(uint64_t offset)
{
    return offset >= RNIC_REG_AOTF &&
           offset < RNIC_REG_AOTF + (uint64_t)RNIC_AOTF_PAGES * RNIC_AOTF_PAGE_BYTES;
}
/* The bus brings a store of `bytes` bytes, the first in the lowest bits of `value`, to this offset
 * of BAR0, which lies in the AOTF space. */
void rnic_aotf_store(struct rnic_card *card, unsigned fn, uint64_t offset, unsigned bytes, uint64_t value);
/* Makes the frame of the function's oldest store, if that is one of the queue pair. */
enum rnic_turn rnic_aotf_turn(struct rnic_card *card, uint32_t qp);

/* Drops the stores of a queue pair that are waiting: it sends nothing more. */
void rnic_aotf_drop(struct rnic_card *card, uint32_t qp);
/* Takes its templates away, too. */
void rnic_aotf_release(struct rnic_card *card, uint32_t qp);

#endif
