/* SPDX-License-Identifier: MIT */
#include "sockets/signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

/* Signals that a thread causes by what it does itself interrupt no call. */
static bool is_fault(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
           number == SIGABRT || number == SIGTRAP || number == SIGSYS;
}

bool sock_signals_restart(void)
{
    int before = errno;
    bool restart = true;
    for (int number = 1; number < NSIG && restart; number++) {
        struct sigaction action;
        restart = is_fault(number) || sigaction(number, NULL, &action) != 0 || action.sa_handler == SIG_DFL ||
                  action.sa_handler == SIG_IGN || (action.sa_flags & SA_RESTART) != 0;
    }
    errno = before;
    return restart;
}
