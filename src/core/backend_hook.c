/* SPDX-License-Identifier: MIT */
#include "core/backend_hook.h"

VIP_RETURN vipl_hook_open(const struct vipl_backend *backend, struct vipl_nic *nic, const char *device,
                          const struct vipl_backend **ops, struct vipl_be_nic **be)
{
    *ops = backend;
    return backend->open(nic, device, be);
}
