/* SPDX-License-Identifier: MIT */
/* Which memory of packets a controller reaches, and by what addresses. */
#ifndef VIPL_DM_NVME_REACH_H
#define VIPL_DM_NVME_REACH_H

#include "dm/memory.h"
#include "dm/nvme/controller.h"

/* The memory's address on the controller's bus; refused if the controller does not reach it. It is
 * tried: the controller writes to its first and its last page, which are put back. */
int dm_nvme_reach(struct dm_nvme *nvme, const struct dm_memory *memory, enum dm_direction direction,
                  uint64_t *bus, struct vipl_dm_reason *reason);

#endif
