/* SPDX-License-Identifier: MIT */
/* What a call that a signal handler has interrupted does: the kernel's own calls go on if the
 * handler was installed with SA_RESTART. And how a call that sleeps several times, and looks in
 * between, is interrupted by every signal that comes meanwhile, as one sleep in the kernel is. */
#ifndef VIPL_SOCKETS_SIGNALS_H
#define VIPL_SOCKETS_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

#include "os/os.h"

/* Returns true if all handlers of the program were installed with SA_RESTART. Which one has run is
 * not known; with handlers of both kinds, a call ends with EINTR. */
bool sock_signals_restart(void);

/* The signals that one call keeps out while it looks, and lets in while it sleeps. */
struct sock_kept_signals {
    struct vipl_signals before; /* valid while `keeps` */
    bool keeps;
};
/* Keeps signals out of the thread from now on. Does nothing if they are kept out already. A handler
 * that has run before has run before the call. */
void sock_signals_keep_out(struct sock_kept_signals *kept);
/* The mask for a sleep, in which the program wants `mask`; NULL: as outside the call. */
const sigset_t *sock_signals_mask(const struct sock_kept_signals *kept, const sigset_t *mask);
/* The end of the call. Handlers of what has come after the last sleep run now. */
void sock_signals_let_in(struct sock_kept_signals *kept);

#endif
