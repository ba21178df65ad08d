/* SPDX-License-Identifier: MIT */
/* Lists of segments that lie outside of work entries, inside the driver. */
#ifndef BACKENDS_RNIC_VERBS_POST_H
#define BACKENDS_RNIC_VERBS_POST_H

#include "backends/rnic/verbs.h"

/* The lists of the entries from `first` to before `end` are not needed any more. */
void vipl_rnic_drop_lists(struct vipl_rnic *rnic, struct vipl_rnic_queue *queue, uint32_t first,
                          uint32_t end);
/* Memory for the next list is there. ENOMEM. */
int vipl_rnic_prepare_lists(struct vipl_rnic *rnic, struct vipl_rnic_queue *queue);

#endif
