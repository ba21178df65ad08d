/* SPDX-License-Identifier: MIT */
/* The name is kept when the library is loaded: programs write over the place of their arguments, to
 * show what they do. */
#include "sockets/program.h"

#include <errno.h>
#include <stdio.h>

static char name[SOCK_PROGRAM_BYTES]; /* constant after the constructor */

__attribute__((constructor)) static void keep_name(void)
{
    snprintf(name, sizeof(name), "%s", program_invocation_short_name);
}

const char *sock_program_name(void)
{
    return name;
}
