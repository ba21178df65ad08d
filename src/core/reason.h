/* SPDX-License-Identifier: MIT */
/* Why a connection fails, for people: lines of the log that say what the return code does not. */
#ifndef VIPL_CORE_REASON_H
#define VIPL_CORE_REASON_H

#include "core/backend.h"
#include "vipl/vipl.h"

/* Logs why a request to `remote` ended with `rc`. `timeout` is the program's argument. Logs nothing
 * for VIP_SUCCESS, and for codes that need no explanation. */
void vipl_reason_connect(const struct vipl_nic *nic, const VIP_NET_ADDRESS *remote, VIP_ULONG timeout,
                         VIP_RETURN rc);
/* Logs how the parameters of the two VIs disagree. */
void vipl_reason_disagree(const struct vipl_vi_params *own, const struct vipl_vi_params *peer, VIP_RETURN rc);

#endif
