/* SPDX-License-Identifier: MIT */
/* How a client posts sends to shared VIs. No lock is held. */
#ifndef VIPL_SHARE_CLIENT_POST_H
#define VIPL_SHARE_CLIENT_POST_H

#include <stdbool.h>

#include "vipl/vipl.h"

/* Leaves a send to the server: the send counts as posted. Returns false if nothing has happened,
 * and the caller must make a call, which decides. */
bool vipl_share_submit(void *vi, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);
/* Waits until the server has posted what this process has left to it. Returns false if
 * there was nothing. */
bool vipl_share_catch_up(void);
/* in a forked child: makes the lock again, because a thread of the parent may have held it */
void vipl_share_submit_in_child(void);

#endif
