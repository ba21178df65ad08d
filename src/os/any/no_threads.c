/* SPDX-License-Identifier: MIT */
/* A system that does not tell how many threads a process has. */
#include "os/os.h"

bool vipl_is_only_thread(void)
{
    return false;
}
