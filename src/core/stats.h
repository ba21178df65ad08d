/* SPDX-License-Identifier: MIT */
/*
 * What VipQuerySystemManagementInfo() counts. Queues and VIs count for themselves, under their own locks. When it is
 * asked, a NIC handle adds up the counts of those that exist and the counts that ended ones left behind.
 */
#ifndef VIPL_CORE_STATS_H
#define VIPL_CORE_STATS_H

#include <stdint.h>

#include "vipl/posix.h"

struct vipl_nic;
struct vipl_vi;

/* Guarded by the NIC's lock. */
struct vipl_retired {
    VIPX_WORK_STATISTICS work; /* of VIs that have ended, */
    uint64_t vis;              /* and the number of those VIs */
    uint64_t requests_taken;
    uint64_t requests_rejected;
};

/* The VI has ended, and no other thread uses it: its counts are added to the NIC handle. The NIC's lock is held. */
void vipl_stats_retire_locked(struct vipl_nic *nic, struct vipl_vi *vi);
void vipl_stats_nic(struct vipl_nic *nic, VIPX_NIC_STATISTICS *out);
VIP_RETURN vipl_stats_vi(struct vipl_nic *nic, VIPX_VI_STATISTICS *out);

#endif
