/* SPDX-License-Identifier: MIT */
/*
 * What VipQuerySystemManagementInfo() counts. Queues and VIs count for themselves, under their own locks; a NIC handle adds up
 * those there are, when it is asked, to what those that have ended left behind.
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
    uint64_t vis;              /* and how many those are */
    uint64_t requests_taken;
    uint64_t requests_rejected;
};

/* The VI has ended, nobody else uses it: its counts go to the NIC handle. The NIC's lock is held. */
void vipl_stats_retire_locked(struct vipl_nic *nic, struct vipl_vi *vi);
void vipl_stats_nic(struct vipl_nic *nic, VIPX_NIC_STATISTICS *out);
VIP_RETURN vipl_stats_vi(struct vipl_nic *nic, VIPX_VI_STATISTICS *out);

#endif
