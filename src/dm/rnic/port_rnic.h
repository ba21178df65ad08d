/* SPDX-License-Identifier: MIT */
/* Cards as ports: what memory of the card, and tests, need to know of them. */
#ifndef VIPL_DM_RNIC_PORT_RNIC_H
#define VIPL_DM_RNIC_PORT_RNIC_H

#include "dm/port.h"
#include "dm/rnic/card.h"

/* A port on a card that is open; also if this fails, the card is closed with it. `name`: what
 * stands behind "rnic:". */
int dm_rnic_port_open(struct vipl_rnic *rnic, const char *name, enum dm_port_direction direction,
                      const struct dm_clock *host, struct dm_port **out, struct vipl_dm_reason *reason);

/* The card of a port; NULL: the port is of another kind. */
struct dm_rnic_card *dm_rnic_card_of(struct dm_port *port);

#endif
