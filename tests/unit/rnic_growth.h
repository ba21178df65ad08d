/* SPDX-License-Identifier: MIT */
/*
 * Room for posts on an RDMA card (src/backends/rnic/data.c), compiled once more, so that a test
 * comes in between: a thread has just made room and let go of the lock, and another one posts.
 */
#ifndef UNIT_RNIC_GROWTH_H
#define UNIT_RNIC_GROWTH_H

#include <stdbool.h>

/* Posts on one VI find no room that many times: first, and then each time as the thread that makes
 * room has just done so. Returns how often room was made; *left: the VI is still on the list of
 * those that want room. */
unsigned unit_growth(unsigned times, bool *left);

#endif
