/* SPDX-License-Identifier: MIT */
/*
 * What programs ask of their function over vfio-user, and the replies. `in_card`: the card is waiting for this program's memory; then
 * its registers may be read, and everything else that changes the card waits.
 */
#ifndef ADAPTER_REQUESTS_H
#define ADAPTER_REQUESTS_H

#include "adapter/function.h"

/* Receives one message and does what it says. 0: done. EAGAIN: there is none. EBUSY: it has to wait until the card has finished, and
 * comes again with the next call. Any other: the connection is over. */
int rnic_request_serve(struct rnic_function *function, bool in_card);

#endif
