/* SPDX-License-Identifier: MIT */
/* Command lines: what is the same for every tool whose options are many. */
#ifndef VIPL_TOOL_OPTIONS_H
#define VIPL_TOOL_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>

struct tool_command {
    const char *short_options; /* of the options, as getopt_long() wants them; V and h are among them */
    const struct option *names;
    void (*print_help)(void);
    bool (*take)(void *into, int option); /* false: a wrong value */
};

/* Takes every option into `into`; what is no option comes after. The exit code, or -1 if there is
 * more to do. */
int tool_parse_options(int argc, char **argv, const struct tool_command *command, void *into);

/* Where a server waits: not empty, and not too long. */
bool tool_parse_discriminator(const char *text, const char **discriminator);

#endif
