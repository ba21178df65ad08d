/* SPDX-License-Identifier: MIT */
/* Copies that report missing memory instead of a signal, where the system can only do that by a
 * pipe. */
#include "os/os.h"
#include "os/posix/pipe_copy.h"

int vipl_copy_checked(void *to, const void *from, size_t bytes)
{
    return vipl_copy_by_pipe(to, from, bytes);
}
