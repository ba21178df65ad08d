/* SPDX-License-Identifier: MIT */
/*
 * Windows of the card: a short message is copied there by the posting thread, so that the card need
 * not fetch it. The entry in the ring is written as always.
 */
#ifndef BACKENDS_RNIC_VERBS_WINDOW_H
#define BACKENDS_RNIC_VERBS_WINDOW_H

#include "backends/rnic/verbs/function.h"
#include "base/iov.h"

/* Asks the card for a window for the queue pair, if the function uses windows; without one
 * everything works as well. Before the first post to the send queue. */
void vipl_rnic_window_get(struct vipl_rnic_qp *qp);
/* An entry is posted: the running index before `behind`. Copies it to its slot if it is one for a
 * window and the slot is not in use. Only for a queue pair that has a window. */
void vipl_rnic_window_post(struct vipl_rnic_qp *qp, const struct vipl_rnic_work *work, uint32_t behind);

/* A segment of work that is posted. */
static inline struct vipl_rnic_segment rnic_segment_of(const struct vipl_rnic_work *work, unsigned i)
{
    if (work->segment != NULL) {
        return work->segment[i];
    }
    return (struct vipl_rnic_segment){.address = (uint64_t)(uintptr_t)work->pieces[i].base,
                                      .length = (uint32_t)work->pieces[i].len,
                                      .stag = work->stags[i]};
}

#endif
