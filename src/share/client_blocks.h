/* SPDX-License-Identifier: MIT */
/*
 * The blocks of VipxAllocShared() to which this process has a reference, as far as it knows them:
 * the first MOST that it allocated or inherited. Their pages stay for as long as they are known
 * here. No function takes a lock, so that a forked child can go on with what its parent knew.
 */
#ifndef VIPL_SHARE_CLIENT_BLOCKS_H
#define VIPL_SHARE_CLIENT_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

/* The process has a reference to that block. */
void vipl_share_add_block(void *address, size_t bytes);
/* The process is about to drop its reference. Returns the block's bytes; 0: it is not known. */
size_t vipl_share_remove_block(void *address);
/* Whether the memory is in one known block, and this process shares objects. */
bool vipl_share_has_memory(const void *address, size_t bytes);

#endif
