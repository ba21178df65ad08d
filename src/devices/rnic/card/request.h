/* SPDX-License-Identifier: MIT */
/* Entries of send queues that are under way: a table of them. */
#ifndef DEVICES_RNIC_CARD_REQUEST_H
#define DEVICES_RNIC_CARD_REQUEST_H

#include "devices/rnic/card/state.h"

/* The function has no requests. */
void rnic_requests_reset(struct rnic_card *card, unsigned fn);

/* A row for one more of the queue pair. NULL: there is none now; the queue pair is scheduled when
 * there may be. */
struct rnic_request *rnic_request_take(struct rnic_card *card, uint32_t qp);
/* The one that was taken last, if not all of its frames are made yet; or NULL. */
struct rnic_request *rnic_request_current(const struct rnic_card *card, uint32_t qp);
/* The oldest one; the one after it; NULL: there is none. */
struct rnic_request *rnic_request_first(const struct rnic_card *card, uint32_t qp);
struct rnic_request *rnic_request_behind(const struct rnic_card *card, const struct rnic_request *request);
/* A number that finds it again, or nothing if it is gone by then. Never 0. */
uint64_t rnic_request_tag(const struct rnic_card *card, const struct rnic_request *request);
struct rnic_request *rnic_request_find(const struct rnic_card *card, unsigned fn, uint64_t tag);

/* Gives back the row of the oldest one. */
void rnic_request_drop_first(struct rnic_card *card, uint32_t qp);
/* Gives up all that are under way: none is completed any more. */
void rnic_requests_drop(struct rnic_card *card, uint32_t qp);

/* --- complete.c: how they complete --- */

/* Completes the oldest requests of the queue pair, as long as they wait for nothing any more. */
void rnic_complete_requests(struct rnic_card *card, uint32_t qp);
/* Completes this one alone, whatever is before it: it is what its queue pair fails for. */
void rnic_complete_alone(struct rnic_card *card, uint32_t qp, const struct rnic_request *request);
/* Completes those before this one, for which the queue pair is going to fail: they have been
 * received. Reads whose data is not there are passed over. */
void rnic_complete_before(struct rnic_card *card, uint32_t qp, const struct rnic_request *end);

#endif
