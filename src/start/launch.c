/* SPDX-License-Identifier: MIT */
/* Starting a process of the library's own, and hearing from it. */
#include "start/launch.h"

#include "base/deadline.h"

enum { START_MS = 30000 };

const char *vipl_launch_path(const char *setting, const char *installed)
{
    const char *named = vipl_trusted_environment(setting);
    return named != NULL ? named : installed;
}

unsigned char vipl_launch_await(int lifeline)
{
    uint64_t end = vipl_deadline(START_MS);
    unsigned char byte = 0;
    size_t length = 0;
    int none[2];
    while (vipl_poll(&lifeline, 1, START_MS, NULL) != 0 && vipl_now_ns() < end) {
    }
    return vipl_local_receive(lifeline, &byte, 1, &length, none) == 0 && length == 1 ? byte : 0;
}

int vipl_launch_program(char *const arguments[], const int *pass, unsigned count, int lifeline[2],
                        unsigned char *said)
{
    int error = vipl_spawn_program(arguments, pass, count);
    if (error == 0) {
        vipl_fd_close(lifeline[1]); /* so that the end of the program ends the wait for what it says */
        lifeline[1] = -1;
        *said = vipl_launch_await(lifeline[0]);
    }
    return error;
}

int vipl_launch_fork(const char *name, void (*run)(void *), void *arg, const int keep[2])
{
    vipl_fd_pass(keep[0], keep[1]);
    int error = vipl_spawn(name, run, arg, keep, 2);
    vipl_fd_pass(-1, -1);
    return error;
}
