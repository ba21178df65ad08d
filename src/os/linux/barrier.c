/* SPDX-License-Identifier: MIT */
/* Barriers in other threads: membarrier(). */
#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"
#include "os/os_mutex.h"

static int membarrier(int command)
{
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

/* vipl_sleepers_make_barriers only goes from 0 to 1, after the process is registered: a thread that
 * unlocks a mutex and reads 1 also sees the count of a sleeper that could not make the barrier. */
void vipl_barrier_prepare(void)
{
    if (vipl_load_relaxed(&vipl_sleepers_make_barriers) == 0 &&
        membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0) {
        vipl_store_ordered(&vipl_sleepers_make_barriers, 1);
    }
}

/* Leaves errno as it was. */
static bool issue_barrier(int command)
{
    int saved = errno;
    bool made = membarrier(command) == 0;
    errno = saved;
    return made;
}

bool vipl_barrier_everywhere(void)
{
    return issue_barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

bool vipl_barrier_take_part(void)
{
    return issue_barrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

bool vipl_barrier_in_all(void)
{
    return issue_barrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}
