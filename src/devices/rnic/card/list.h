/* SPDX-License-Identifier: MIT */
/* Lists of queue pairs: in and out in a few steps, by the links in their rows. */
#ifndef DEVICES_RNIC_CARD_LIST_H
#define DEVICES_RNIC_CARD_LIST_H

#include "devices/rnic/card/state.h"

bool rnic_list_has(const struct rnic_card *card, enum rnic_list_kind kind, uint32_t qp);
/* Each does nothing to a queue pair that is, or is not, in a list of that kind already. */
void rnic_list_append(const struct rnic_card *card, struct rnic_list *list, enum rnic_list_kind kind,
                      uint32_t qp);
void rnic_list_prepend(const struct rnic_card *card, struct rnic_list *list, enum rnic_list_kind kind,
                       uint32_t qp);
void rnic_list_remove(const struct rnic_card *card, struct rnic_list *list, enum rnic_list_kind kind,
                      uint32_t qp);
/* Takes the first one out. False: there is none. */
bool rnic_list_pop(const struct rnic_card *card, struct rnic_list *list, enum rnic_list_kind kind,
                   uint32_t *qp);

#endif
