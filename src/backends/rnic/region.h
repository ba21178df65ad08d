/* SPDX-License-Identifier: MIT */
/* Registered memory: the card's tags are its handles. */
#ifndef BACKENDS_RNIC_REGION_H
#define BACKENDS_RNIC_REGION_H

#include "backends/rnic/rnic.h"

VIP_RETURN vipl_rnic_region_add(struct vipl_be_nic *be, struct vipl_region_params *params);
VIP_RETURN vipl_rnic_region_remove(struct vipl_be_nic *be, VIP_MEM_HANDLE handle);
VIP_RETURN vipl_rnic_region_change(struct vipl_be_nic *be, const struct vipl_region_params *params);
VIP_RETURN vipl_rnic_regions_end(struct vipl_be_nic *be);

#endif
