/* SPDX-License-Identifier: MIT */
/* Signals that end a program, for programs of the project: the library leaves signals to the
 * program. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "os/os.h"

static void (*end_handler)(void); /* set before the handler is installed */

static void asked_to_end(int number)
{
    int saved = errno;
    (void)number;
    end_handler();
    errno = saved;
}

/* Whether SIGHUP is ignored: nohup(1) lets the program go on when its terminal is gone. */
static bool outlives_its_terminal(int number)
{
    struct sigaction before;
    return number == SIGHUP && sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
}

void vipl_on_end(void (*handler)(void))
{
    const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction action = {.sa_handler = asked_to_end};
    sigset_t set;
    sigemptyset(&set);
    sigemptyset(&action.sa_mask);
    end_handler = handler;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        if (!outlives_its_terminal(signals[i])) {
            sigaction(signals[i], &action, NULL);
        }
        sigaddset(&set, signals[i]);
    }
    /* a program in the background has begun with all blocked */
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void vipl_writes_fail(void)
{
    const int signals[] = {SIGPIPE, SIGXFSZ};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        sigaction(signals[i], &ignore, NULL);
    }
}
