/* SPDX-License-Identifier: MIT */
/* Raw queue pairs: whole Ethernet frames, without a flow and without a peer. */
#ifndef DEVICES_RNIC_CARD_RAW_H
#define DEVICES_RNIC_CARD_RAW_H

#include "devices/rnic/card/state.h"

/* Returns the bytes of the table of raw queue pairs; 0: no function may have any. */
size_t rnic_raw_bytes(const struct rnic_card_config *config);
/* Returns true if the function may have raw queue pairs. */
bool rnic_raw_allows(const struct rnic_card_config *config, unsigned fn);

/* The queue pair leaves IDLE: it gets a row of the table. Returns false if there is none. */
bool rnic_raw_open(struct rnic_card *card, uint32_t qp);
/* The queue pair gives its row back, if it has one; a frame that waits there is dropped. */
void rnic_raw_close(struct rnic_card *card, uint32_t qp);
/* Returns true if a frame of the queue pair was copied and has not been sent. */
bool rnic_raw_owes(const struct rnic_card *card, uint32_t qp);

/* Sends frames of the queue pairs that have something to send, in turn. Returns how many steps it
 * has done, at most `most`. */
uint32_t rnic_raw_run(struct rnic_card *card, uint32_t most);
/* Queue pairs whose time has come have something to send again. */
void rnic_raw_advance(struct rnic_card *card);
/* The switch has handed out frames: it may have room for what it refused. */
void rnic_raw_unblock(struct rnic_card *card);

/* Returns true if the frame is for raw queue pairs: they are in use, and it is not EFE's. */
bool rnic_raw_wants(const struct rnic_card *card, const uint8_t *frame, uint32_t bytes);
/* Hands the frame to each raw queue pair whose filter takes it. */
void rnic_raw_arrive(struct rnic_card *card, const uint8_t *frame, uint32_t bytes);

#endif
