/* SPDX-License-Identifier: MIT */
/* Signals that calls of the library raise, and that the program is not to get. */
#ifndef VIPL_OS_POSIX_SIGNALS_H
#define VIPL_OS_POSIX_SIGNALS_H

#include <signal.h>

/* Consumes the signal of a failed call, which is blocked and pending for this thread. A signal that
 * was pending before belongs to the program and stays. */
void vipl_signal_consume(int signal, const sigset_t *pending_before);

#endif
