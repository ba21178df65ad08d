/* SPDX-License-Identifier: MIT */
/* The server's heap: which units of the shared memory are in a block. */
#ifndef VIPL_SERVER_HEAP_H
#define VIPL_SERVER_HEAP_H

#include "share/arena.h"

void vipl_server_heap_init(const struct vipl_heap *shared);
/* the whole heap, in memory that clients cannot write */
const struct vipl_heap *vipl_server_heap(void);
/* Takes a block of at least `bytes` bytes; *taken: how many it has. NULL: there is
 * no such block. */
unsigned char *vipl_server_heap_take(size_t bytes, size_t *taken);
/* gives a block back, and clears it */
void vipl_server_heap_give(unsigned char *address, size_t bytes);

#endif
