/* SPDX-License-Identifier: MIT */
/*
 * The library's own processes: the server, the adapter. Such a process is an installed program or,
 * where there is none, a fork of this process. On its lifeline, a local socket, it sends one byte
 * when it is ready or has failed. The end of the process ends the lifeline.
 */
#ifndef START_LAUNCH_H
#define START_LAUNCH_H

#include "os/os.h"

/* The path of a program: that of the environment variable `setting` (vipl_config_environment()),
 * else `installed`. "": no program is wanted. */
const char *vipl_launch_path(const char *setting, const char *installed);

/* Runs the program arguments[0], which inherits the descriptors `pass`, and waits for its byte.
 * *said: the byte; 0: the program has ended, or takes too long. Closes lifeline[1], the
 * program's end, which is one of `pass`. Returns 0 or an errno value; ENOENT, EACCES: there is
 * no such program. */
int vipl_launch_program(char *const arguments[], const int *pass, unsigned count, int lifeline[2],
                        unsigned char *said);
/* Waits for the byte of a process, and returns it; 0: the process has ended, or takes too long. The
 * caller must have closed the process's end of the lifeline. */
unsigned char vipl_launch_await(int lifeline);

/* Runs `run` in a fork of this process, which has the two descriptors `keep` and no others of this
 * process. Returns 0 or an errno value. */
int vipl_launch_fork(const char *name, void (*run)(void *), void *arg, const int keep[2]);

#endif
