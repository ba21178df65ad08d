/* SPDX-License-Identifier: MIT */
/*
 * Controllers by their addresses. The kernel gives a function to one part of one process: a store
 * and the memory of the same controller are found here to be of one.
 */
#ifndef VIPL_DM_NVME_SHARED_H
#define VIPL_DM_NVME_SHARED_H

#include "dm/nvme/controller.h"

/* The controller at this address, which is opened if no part has it yet. A store is one part, and
 * memory one: a second of the same kind is refused. `name` of the part, for the reason. */
int dm_nvme_take(const char *address, const char *name, bool is_store, struct dm_nvme **out,
                 struct vipl_dm_reason *reason);
/* The last part closes the controller. */
void dm_nvme_give(struct dm_nvme *nvme, bool is_store);
/* A controller that is open has this address from now on; of one thread. */
void dm_nvme_share(struct dm_nvme *nvme, const char *address);

#endif
