/* SPDX-License-Identifier: MIT */
#include "sockets/fault.h"

#include <string.h>

#include "os/os.h"

bool sock_fault_is(enum sock_fault fault)
{
    static const char *const names[SOCK_FAULTS] = {"decline", "stream", "join", "commit", "die", "signal"};
    const char *asked = vipl_environment("VIPL_SOCKETS_FAULT");
    return asked != NULL && strcmp(asked, names[fault]) == 0;
}
