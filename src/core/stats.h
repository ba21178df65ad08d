/* SPDX-License-Identifier: MIT */
/*
 * The counts of VipQuerySystemManagementInfo(). Each queue and VI counts for itself, under its own
 * lock. A query adds up the counts of the VIs that exist and the retained counts of VIs that have
 * ended.
 */
#ifndef VIPL_CORE_STATS_H
#define VIPL_CORE_STATS_H

#include <stdint.h>

#include "vipl/posix.h"

struct vipl_nic;
struct vipl_vi;

/* Counts of what has ended. Guarded by the NIC's lock. */
struct vipl_retired {
    VIPX_WORK_STATISTICS work; /* the sum of the VIs that have ended */
    uint64_t vis;              /* the number of those VIs */
    uint64_t requests_taken;
    uint64_t requests_rejected;
};

/* Adds the counts of a VI that has ended to the NIC handle. No other thread uses the VI. The NIC's
 * lock is held. */
void vipl_stats_retire_locked(struct vipl_nic *nic, struct vipl_vi *vi);
void vipl_stats_nic(struct vipl_nic *nic, VIPX_NIC_STATISTICS *out);
VIP_RETURN vipl_stats_vi(struct vipl_nic *nic, VIPX_VI_STATISTICS *out);

#endif
