/* SPDX-License-Identifier: MIT */
/* Queue pairs: their table, their end. */
#ifndef DEVICES_RNIC_CARD_QP_H
#define DEVICES_RNIC_CARD_QP_H

#include "devices/rnic/card/state.h"
#include "iwarp/rdmap.h"

/* Its doorbell may have changed. */
void rnic_qp_look(struct rnic_card *card, uint32_t qp);

/*
 * It goes to ERROR by itself, for this reason: a value of ERROR. The peer is told by a Terminate,
 * if there is one to be sent; then DRAINED and the event follow. Nothing happens to one that is in
 * ERROR.
 */
void rnic_qp_fail(struct rnic_card *card, uint32_t qp, uint16_t error,
                  const struct vipl_rdmap_terminate *terminate);
/* The driver wants it in ERROR. */
void rnic_qp_stop(struct rnic_card *card, uint32_t qp);
/* The Terminate was sent, or cannot be: what is left of going to ERROR. */
void rnic_qp_drain(struct rnic_card *card, uint32_t qp);
/* What was posted before CLOSING is complete, or the time is up. */
void rnic_qp_check_closing(struct rnic_card *card, uint32_t qp);
/* Those whose time in CLOSING is up go to ERROR. */
void rnic_qp_advance(struct rnic_card *card);
uint64_t rnic_qp_deadline(const struct rnic_card *card);

/* Its row, its flow and its requests are given back, whatever its state. */
void rnic_qp_free(struct rnic_card *card, uint32_t qp);
/* Uses a flow; leaves it. */
void rnic_qp_attach(struct rnic_card *card, uint32_t qp, uint32_t flow);
void rnic_qp_detach(struct rnic_card *card, uint32_t qp);
/* Whether messages are received and sent. */
static inline bool rnic_qp_receives(const struct rnic_qp *row)
{
    return row->state == RNIC_QP_STATE_RECEIVE || row->state == RNIC_QP_STATE_CONNECTED ||
           row->state == RNIC_QP_STATE_CLOSING;
}
static inline bool rnic_qp_sends(const struct rnic_qp *row)
{
    return row->state == RNIC_QP_STATE_CONNECTED || row->state == RNIC_QP_STATE_CLOSING;
}

#endif
