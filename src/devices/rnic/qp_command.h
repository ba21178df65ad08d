/* SPDX-License-Identifier: MIT */
/* The commands about queue pairs. */
#ifndef DEVICES_RNIC_QP_COMMAND_H
#define DEVICES_RNIC_QP_COMMAND_H

#include "devices/rnic/command.h"

uint16_t rnic_qp_create(struct rnic_card *card, struct rnic_command *command);
uint16_t rnic_qp_modify(struct rnic_card *card, struct rnic_command *command);
uint16_t rnic_qp_set_ring(struct rnic_card *card, struct rnic_command *command);
uint16_t rnic_qp_destroy(struct rnic_card *card, struct rnic_command *command);
uint16_t rnic_qp_query(struct rnic_card *card, struct rnic_command *command);

#endif
