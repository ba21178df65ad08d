/* SPDX-License-Identifier: MIT */
/* What a call that a signal handler has interrupted does: the kernel's own calls go on if the
 * handler was installed with SA_RESTART. */
#ifndef VIPL_SOCKETS_SIGNALS_H
#define VIPL_SOCKETS_SIGNALS_H

#include <stdbool.h>

/* Returns true if all handlers of the program were installed with SA_RESTART. Which one has run is
 * not known; with handlers of both kinds, a call ends with EINTR. */
bool sock_signals_restart(void);

#endif
