/* SPDX-License-Identifier: MIT */
/* Replaying a log of vipl-rnicd --record: a card is told all that the logged one was told, and has
 * to do all that the logged one did. */
#ifndef RNIC_LOG_REPLAY_H
#define RNIC_LOG_REPLAY_H

#include "options.h"

enum { REPLAY_DIFFERS = 3 }; /* the exit code */

/* Says on standard output that what the card does, or NULL, is not the log's record with this
 * number, or NULL: the log is over. */
void replay_differs(const char *path, uint64_t number, const struct rnic_transaction *log,
                    const struct rnic_transaction *card);

/* Replays options->files[0] up to options->until, and says on standard output how that went.
 * Returns an exit code. */
int replay(const struct log_options *options);

#endif
