/* SPDX-License-Identifier: MIT */
/* <sys/mman.h>, and what it does not have on every system. */
#ifndef VIPL_OS_POSIX_MMAN_H
#define VIPL_OS_POSIX_MMAN_H

#include <stddef.h>
#include <sys/mman.h>

#ifndef MAP_NORESERVE /* such a system never counts pages before they are touched */
#define MAP_NORESERVE 0
#endif
#ifndef MAP_FIXED_NOREPLACE /* the address is a hint then: the caller compares it with the result */
#define MAP_FIXED_NOREPLACE 0
#endif

/* Has forked children not get a mapping. */
void vipl_keep_from_children(void *base, size_t bytes);

#endif
