/* SPDX-License-Identifier: MIT */
/* The event ring. */
#ifndef DEVICES_RNIC_CARD_EVENT_H
#define DEVICES_RNIC_CARD_EVENT_H

#include "devices/rnic/card/state.h"

/* A control message that arrived. */
struct rnic_message {
    const uint8_t *bytes;
    uint32_t length;
    const uint8_t *from_mac;
    uint16_t from_fn;
    uint32_t object;
};
/* False: the ring is full. */
bool rnic_event_control(struct rnic_card *card, unsigned fn, const struct rnic_message *message);
/* A function of another driver has ended. Not told if the ring is full. */
void rnic_event_peer_lost(struct rnic_card *card, unsigned fn, const uint8_t mac[6], uint16_t peer_fn);
/* A queue pair's error is told, now or when there is room. */
void rnic_event_qp(struct rnic_card *card, uint32_t qp, uint16_t code);
/* The wire carries frames, or does not: STATUS.LINK_UP of all functions. */
void rnic_event_link(struct rnic_card *card, bool up);
/* The function is in a catastrophe. The last event of all, if there is room for it and the ring can
 * be written. */
void rnic_event_catastrophe(struct rnic_card *card, unsigned fn);
/* There may be room: what was kept is told. */
void rnic_event_flush(struct rnic_card *card, unsigned fn);

#endif
