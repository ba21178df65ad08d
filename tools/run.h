/* SPDX-License-Identifier: MIT */
/* The parts of vipl-run. */
#ifndef VIPL_TOOLS_RUN_H
#define VIPL_TOOLS_RUN_H

#include <limits.h>
#include <stdbool.h>

enum { RUN_WHY_BYTES = 2 * PATH_MAX + 128 };

/* run_find.c: where the program is, as a shell finds it. False: errno says why there is none. */
bool run_find_program(const char *name, char path[PATH_MAX]);
/* run_find.c: libvipl-sockets.so, of the same build or installed. False: *why says why not. */
bool run_find_library(char path[PATH_MAX], char why[RUN_WHY_BYTES]);

/* run_look.c: whether the system loads the library into this program. Follows scripts to what runs
 * them. False: *why says why not. A file that cannot be read or understood is left to exec. */
bool run_can_help(const char *program, char why[RUN_WHY_BYTES]);

/* run_stats.c: prints the counts of a running process. Returns the exit code. */
int run_print_stats(unsigned process);

#endif
