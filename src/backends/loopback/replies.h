/* SPDX-License-Identifier: MIT */
/*
 * Replies to the offers of this process's requests (offers.h), and offers whose other end has gone.
 *
 * The callers of all functions hold the registry's lock.
 */
#ifndef VIPL_LOOPBACK_REPLIES_H
#define VIPL_LOOPBACK_REPLIES_H

#include "backends/loopback/offer.h"

/* Handles what the other end of an offer has sent. May free `offer`. */
void vipl_lo_offer_event(struct lo_offer *offer);
/* Handle a reply that has come as a control message of the link `via`, and the end of that link. */
void vipl_lo_offer_answered(struct lo_link *via, const struct lo_reply *reply);
void vipl_lo_offers_hang_up(struct lo_link *via);
/* Ends the VI's request, as vipl_backend.connect_cancel, after a look at the replies that have
 * come. VIP_NOT_DONE: the request was accepted and the reply is on its way over *fd; not returned
 * if `last`. */
VIP_RETURN vipl_lo_offers_cancel(struct vipl_vi *vi, bool last, int *fd);

#endif
