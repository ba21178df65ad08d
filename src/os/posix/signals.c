/* SPDX-License-Identifier: MIT */
/* Signals that calls of the library raise. */
#include "os/posix/signals.h"

void vipl_signal_consume(int signal, const sigset_t *pending_before)
{
    sigset_t pending;
    sigset_t one;
    int which;
    if (sigismember(pending_before, signal) == 0 && sigpending(&pending) == 0 &&
        sigismember(&pending, signal) == 1) {
        sigemptyset(&one);
        sigaddset(&one, signal);
        (void)sigwait(&one, &which);
    }
}
