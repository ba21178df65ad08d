/* SPDX-License-Identifier: MIT */
#include "sockets/fault.h"

#include <string.h>

#include "os/os.h"
#include "os/os_atomic.h"

bool sock_fault_is(enum sock_fault fault)
{
    static const char *const names[SOCK_FAULTS] = {"decline", "stream", "join", "commit", "die"};
    static uint32_t known; /* atomic: the number of the fault + 1; SOCK_FAULTS + 1: none; 0: not known */
    if (vipl_load_relaxed(&known) == 0) {
        const char *asked = vipl_environment("VIPL_SOCKETS_FAULT");
        uint32_t found = 0;
        while (found < SOCK_FAULTS && (asked == NULL || strcmp(asked, names[found]) != 0)) {
            found++;
        }
        vipl_store_relaxed(&known, found + 1);
    }
    return vipl_load_relaxed(&known) == (uint32_t)fault + 1;
}
