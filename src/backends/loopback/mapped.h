/* SPDX-License-Identifier: MIT */
/*
 * Shared memory of a peer that this process has mapped: RDMA there is a copy, and takes no system
 * call. A process publishes where its shared memory is (vipl_shm_show(), the export table). Only a
 * process that may access the publishing process's memory anyhow can map it.
 */
#ifndef VIPL_LOOPBACK_MAPPED_H
#define VIPL_LOOPBACK_MAPPED_H

#include "os/os.h"

struct lo_link;

/* Returns where the bytes are mapped in this process, and maps the peer's memory at the first call.
 * NULL: they are not in memory that can be mapped. The mapping lasts until the link is freed. Takes
 * tx. */
unsigned char *vipl_lo_mapped_find(struct lo_link *link, const struct vipl_mappable *mappable, size_t bytes);
/* Unmaps everything, when the link is freed. */
void vipl_lo_mapped_free(struct lo_link *link);

#endif
