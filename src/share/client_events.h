/* SPDX-License-Identifier: MIT */
/* The thread of a client that calls the handlers of shared objects. */
#ifndef VIPL_SHARE_CLIENT_EVENTS_H
#define VIPL_SHARE_CLIENT_EVENTS_H

#include "vipl/vipl.h"

VIP_RETURN vipl_share_events_start(void); /* repeatable: starts the thread */
/* Waits until the handlers have returned that were to be called before this, unless it is called by one of them. */
void vipl_share_events_finish(void);

#endif
