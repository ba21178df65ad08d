/* SPDX-License-Identifier: MIT */
/* Namespaces as stores: what tests need to know of them. */
#ifndef VIPL_DM_NVME_STORE_NVME_H
#define VIPL_DM_NVME_STORE_NVME_H

#include "dm/nvme/controller.h"
#include "dm/store.h"

/* What stands behind "nvme:". */
struct dm_nvme_range {
    char address[DM_PCI_ADDRESS_ROOM];
    uint64_t lba;
    uint64_t blocks; /* 0: all that are behind */
    bool has_lba;
};

/* False: the text is not ADDRESS[,lba=N][,blocks=N]. */
bool dm_nvme_range_read(const char *text, struct dm_nvme_range *range);

/* A store on a controller, which it gives back when it is closed, and if this fails. */
int dm_nvme_store_open(struct dm_nvme *nvme, const struct dm_nvme_range *range,
                       const struct dm_store_wish *wish, struct dm_store **out,
                       struct vipl_dm_reason *reason);

#endif
