/* SPDX-License-Identifier: MIT */
/* Accesses to a function's registers, of any length, as the card takes them: aligned, of 1, 2, 4 or 8 bytes. */
#ifndef ADAPTER_ACCESS_H
#define ADAPTER_ACCESS_H

#include "adapter/function.h"

enum { RNIC_CONFIG_BYTES = 4096 };

uint64_t rnic_region_bytes(unsigned region); /* 0: there is no such region */
/* Whether all of it lies in a region. */
bool rnic_access_is_valid(const struct vfu_access *access);
void rnic_access_read(struct rnic_function *function, const struct vfu_access *access, uint8_t *out);
void rnic_access_write(struct rnic_function *function, const struct vfu_access *access, const uint8_t *in);

#endif
