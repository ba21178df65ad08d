/* SPDX-License-Identifier: MIT */
/* Posting: what the entry points of the data path call. */
#ifndef VIPL_CORE_TRANSFER_H
#define VIPL_CORE_TRANSFER_H

#include "vipl/vipl.h"

/* VIP_INVALID_PARAMETER: `handle` is not that of a private VI of this process. */
VIP_RETURN vipl_post_send(void *handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);
VIP_RETURN vipl_post_recv(void *handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);

#endif
