/* SPDX-License-Identifier: MIT */
/* What senders and captures are told of their parts: sizes, and which memory goes with a port. */
#ifndef VIPL_DM_PATH_H
#define VIPL_DM_PATH_H

#include "dm/memory.h"
#include "dm/port.h"
#include "vipl/device_memory.h"

#define DM_MIN_CHUNK_BYTES UINT32_C(65536)

/* 0, or EINVAL and why. */
int dm_path_check(const struct vipl_dm_path *path, struct vipl_dm_reason *reason);
uint32_t dm_path_chunk_bytes(const struct vipl_dm_path *path);

/* The port and the memory of a path, if the port can have packets there. On failure what was opened
 * is the caller's to close. */
int dm_path_open(const struct vipl_dm_path *path, enum dm_port_direction direction, struct dm_port **port,
                 struct dm_memory **memory, struct vipl_dm_reason *reason);

#endif
