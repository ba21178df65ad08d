/* SPDX-License-Identifier: MIT */
/* A controller's memory buffer as memory: what other parts, and tests, need to know of it. */
#ifndef VIPL_DM_NVME_MEMORY_CMB_H
#define VIPL_DM_NVME_MEMORY_CMB_H

#include "dm/memory.h"
#include "dm/nvme/controller.h"

/* The memory buffer of a controller, which is given back when the memory is closed, and if this
 * fails. `bytes` 0: all of it. */
int dm_nvme_cmb_open(struct dm_nvme *nvme, const char *address, uint64_t bytes, struct dm_memory **memory,
                     struct vipl_dm_reason *reason);

/* Where on the controller's bus the memory is, if it is the controller's own. False: it is not. */
bool dm_nvme_cmb_find(const struct dm_nvme *nvme, const struct dm_memory *memory, uint64_t *bus);
/* Whether the controller's commands may have their data there. */
bool dm_nvme_cmb_allows(const struct dm_memory *memory, enum dm_direction direction);

#endif
