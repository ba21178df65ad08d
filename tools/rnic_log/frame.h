/* SPDX-License-Identifier: MIT */
/* Frames in a log. */
#ifndef RNIC_LOG_FRAME_H
#define RNIC_LOG_FRAME_H

#include "devices/rnic/card/card.h"
#include "devices/rnic/efe/frame.h"

/* Reads the header of a frame. False: the transaction is none, or the frame is damaged. */
static inline bool log_frame_read(const struct rnic_transaction *c, struct efe_header *out)
{
    bool is_frame = c->kind == RNIC_TRANSACTION_FRAME_SENT || c->kind == RNIC_TRANSACTION_FRAME_RECEIVED;
    return is_frame && c->data != NULL && efe_frame_read(c->data, c->bytes, out) == EFE_FRAME_OK;
}

#endif
