/* SPDX-License-Identifier: MIT */
/*
 * A peer's shared memory that this process has mapped, so that RDMA there is a copy and takes no system call. A process shows
 * where it is (vipl_shm_show(), the export table); who may map it is who may access that process's memory anyhow.
 */
#ifndef VIPL_LOOPBACK_MAPPED_H
#define VIPL_LOOPBACK_MAPPED_H

#include "os/os.h"

struct lo_link;

/* Where those bytes are here; NULL: they are not in memory that can be mapped. The first time maps it. No lock of the link's is
 * held. What is returned is there until the link is freed. */
unsigned char *vipl_lo_mapped_find(struct lo_link *link, const struct vipl_mappable *mappable, size_t bytes);
void vipl_lo_mapped_free(struct lo_link *link);

#endif
