/* SPDX-License-Identifier: MIT */
/* Replaying a log to a card behind a socket (docs/rnic/socket.md): this program is the host, and
 * the card has to do what the log's card did, in its own time. */
#ifndef RNIC_LOG_CARD_H
#define RNIC_LOG_CARD_H

#include "options.h"

/* Replays options->files[0] up to options->until to the card at options->card, and says on standard
 * output how that went. Returns an exit code. */
int replay_to_card(const struct log_options *options);

#endif
