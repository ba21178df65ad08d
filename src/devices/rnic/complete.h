/* SPDX-License-Identifier: MIT */
/* How entries of a send queue complete. */
#ifndef DEVICES_RNIC_COMPLETE_H
#define DEVICES_RNIC_COMPLETE_H

#include "devices/rnic/state.h"

/* Completes the oldest requests of the queue pair, as long as they wait for nothing any more. */
void rnic_complete_requests(struct rnic_card *card, uint32_t qp);
/* Completes this one alone, whatever is before it: it is what its queue pair fails for. */
void rnic_complete_alone(struct rnic_card *card, uint32_t qp, const struct rnic_request *request);
/* Completes those before this one, for which the queue pair is going to fail: they have been received. Reads whose data is not there are
 * passed over. */
void rnic_complete_before(struct rnic_card *card, uint32_t qp, const struct rnic_request *end);

#endif
