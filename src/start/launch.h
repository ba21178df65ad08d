/* SPDX-License-Identifier: MIT */
/*
 * Processes of the library's own: a program that is installed for the purpose or, where there is none, a fork of this one. When it is ready,
 * or cannot be, it says so in one byte on its lifeline, a local socket.
 */
#ifndef START_LAUNCH_H
#define START_LAUNCH_H

#include "os/os.h"

/* The path of the program: what the environment says (vipl_config_environment()), else the installed one; "": there is to be none. */
const char *vipl_launch_path(const char *setting, const char *installed);

/* Runs the program arguments[0], which inherits `pass`, and waits for what it says; 0: it has ended instead, or takes too long; the second end of
 * the lifeline, one of `pass`, is closed then. ENOENT, EACCES: there is no such program. */
int vipl_launch_program(char *const arguments[], const int *pass, unsigned count, int lifeline[2],
                        unsigned char *said);
/* What the process says; 0: as above. Its own end of the lifeline must have been closed here. */
unsigned char vipl_launch_await(int lifeline);

/* Runs `run` in a fork of this process that has no descriptors of it but these two. */
int vipl_launch_fork(const char *name, void (*run)(void *), void *arg, const int keep[2]);

#endif
