/* SPDX-License-Identifier: MIT */
/* Why a call fails, for people: lines of the log that name what the return code does not. */
#ifndef VIPL_CORE_REASON_H
#define VIPL_CORE_REASON_H

#include "core/backend.h"
#include "vipl/vipl.h"

/* A request to `remote` ended with `rc`; `timeout`: as the program gave it. Says nothing of VIP_SUCCESS and of what tells all. */
void vipl_reason_connect(const struct vipl_nic *nic, const VIP_NET_ADDRESS *remote, VIP_ULONG timeout,
                         VIP_RETURN rc);
/* The VIs at the two ends do not agree. */
void vipl_reason_disagree(const struct vipl_vi_params *own, const struct vipl_vi_params *peer, VIP_RETURN rc);

#endif
