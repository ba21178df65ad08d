/* SPDX-License-Identifier: MIT */
/* What the entry points (api_*.c) call for data transfer; the other objects have headers of their own. */
#ifndef VIPL_CORE_API_H
#define VIPL_CORE_API_H

#include "vipl/vipl.h"

VIP_RETURN vipl_post_send(void *handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);
VIP_RETURN vipl_post_recv(void *handle, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);

#endif
