/* SPDX-License-Identifier: MIT */
/* The server's heap: which units of the shared memory are in a block. */
#ifndef VIPL_SERVER_HEAP_H
#define VIPL_SERVER_HEAP_H

#include "share/arena.h"

void vipl_server_heap_init(const struct vipl_heap *shared);
const struct vipl_heap *vipl_server_heap(void); /* all of it, where clients cannot write */
/* So many bytes or more: `taken` says how many; NULL: there are not as many in a row. */
unsigned char *vipl_server_heap_take(size_t bytes, size_t *taken);
void vipl_server_heap_give(unsigned char *address, size_t bytes); /* clears them, too */

#endif
