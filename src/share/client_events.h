/* SPDX-License-Identifier: MIT */
/* The thread of a client that calls the handlers of shared objects. No lock is held. */
#ifndef VIPL_SHARE_CLIENT_EVENTS_H
#define VIPL_SHARE_CLIENT_EVENTS_H

#include "vipl/vipl.h"

VIP_RETURN vipl_share_events_start(void); /* starts the thread, unless it runs */
/* Waits until every handler that the server had sent before has returned. Does not wait in the
 * thread itself, which runs the handlers. */
void vipl_share_events_finish(void);

#endif
