/* SPDX-License-Identifier: MIT */
#include "sockets/signals.h"

#include <errno.h>
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

void sock_signals_keep_out(struct sock_kept_signals *kept)
{
    if (!kept->keeps) {
        vipl_signals_keep_out(&kept->before);
        kept->keeps = true;
    }
}

const sigset_t *sock_signals_mask(const struct sock_kept_signals *kept, const sigset_t *mask)
{
    return mask == NULL && kept->keeps ? (const sigset_t *)(const void *)kept->before.set : mask;
}

void sock_signals_let_in(struct sock_kept_signals *kept)
{
    if (kept->keeps) {
        kept->keeps = false;
        vipl_signals_let_in(&kept->before);
    }
}
