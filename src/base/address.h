/* SPDX-License-Identifier: MIT */
/* How long the parts of a VIP_NET_ADDRESS may be, on any device. */
#ifndef VIPL_BASE_ADDRESS_H
#define VIPL_BASE_ADDRESS_H

enum { VIPL_MAX_DISCRIMINATOR = 64, VIPL_MAX_HOST_ADDRESS = 16 };

#endif
