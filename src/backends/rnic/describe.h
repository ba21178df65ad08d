/* SPDX-License-Identifier: MIT */
/* What the card is, as vipl-info shows it. */
#ifndef BACKENDS_RNIC_DESCRIBE_H
#define BACKENDS_RNIC_DESCRIBE_H

#include "core/backend.h"

void vipl_rnic_describe(struct vipl_be_nic *be, VIPX_DEVICE_PROPERTIES *out);

#endif
