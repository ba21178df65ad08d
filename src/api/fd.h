/* SPDX-License-Identifier: MIT */
/* Ready descriptors, between the files of src/api. */
#ifndef VIPL_API_FD_H
#define VIPL_API_FD_H

#include "vipl/posix.h"

/* VipxGetFd(), within the call of another function, on every system. */
VIP_RETURN vipl_get_fd(VIPX_FD_KIND kind, VIP_PVOID handle, int *fd);

#endif
