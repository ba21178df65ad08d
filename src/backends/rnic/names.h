/* SPDX-License-Identifier: MIT */
/* Names of hosts and addresses of cards. */
#ifndef BACKENDS_RNIC_NAMES_H
#define BACKENDS_RNIC_NAMES_H

#include "backends/rnic/rnic.h"

VIP_RETURN vipl_rnic_resolve(struct vipl_be_nic *be, const char *name, uint32_t index,
                             struct vipl_address *out);
VIP_RETURN vipl_rnic_reverse(struct vipl_be_nic *be, const struct vipl_address *host, char *name,
                             size_t size);

#endif
