/* SPDX-License-Identifier: MIT */
/*
 * VIPL_CACHE=verify: the physical pages of a region as they were when it was registered, compared
 * with those that its addresses have at each hit. For tests of the cache, as a user who may know
 * physical addresses; pages that the system moves by itself, or copies after a fork, also differ,
 * unless the device locks them.
 */
#ifndef VIPL_CORE_CACHE_VERIFY_H
#define VIPL_CORE_CACHE_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

struct vipl_frames;

/* Reads the pages of memory that has just been registered. NULL: the system does not tell, which is
 * logged. */
struct vipl_frames *vipl_frames_read(uintptr_t first, uintptr_t end);
void vipl_frames_free(struct vipl_frames *frames); /* does nothing for NULL */
/* Returns false if a part of the memory has other pages now. Pages that are not there do not
 * count. */
bool vipl_frames_are(const struct vipl_frames *frames, uintptr_t first, uintptr_t end);

#endif
