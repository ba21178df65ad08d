/* SPDX-License-Identifier: MIT */
/* Posting sends to shared VIs, by a client. */
#ifndef VIPL_SHARE_CLIENT_POST_H
#define VIPL_SHARE_CLIENT_POST_H

#include <stdbool.h>

#include "vipl/vipl.h"

/* Leaves a send to the server, which is as good as posted then. False: nothing has happened, a call has to say what becomes of
 * it. */
bool vipl_share_submit(void *vi, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);
/* Waits until the server has posted what this process has left to it. False: there was nothing. */
bool vipl_share_catch_up(void);
void vipl_share_submit_in_child(
    void); /* in a forked child: another thread of the parent may have been posting */

#endif
