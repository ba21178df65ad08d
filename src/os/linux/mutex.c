/* SPDX-License-Identifier: MIT */
/* The contended paths of the mutex, and the barrier that makes its other paths cheap. */
#include <errno.h>
#include <linux/membarrier.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"
#include "os/os_mutex.h"

enum {
    SPINS = 64, /* threads rarely hold a lock longer than a few hundred cycles */
    /* after which a sleeper looks whether it waits for nobody; a wait with a limit also ends when a
     * signal handler has run */
    LOOK_MS = 100
};

uint32_t vipl_sleepers_make_barriers;

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

/* The folder has a link for each thread, and two more. Leaves errno as it was. */
static bool is_only_thread(void)
{
    struct stat threads;
    int saved = errno;
    bool only = stat("/proc/self/task", &threads) == 0 && threads.st_nlink == 3;
    errno = saved;
    return only;
}

bool vipl_owners_are_gone(void)
{
    return vipl_fork_generation() != 1 && is_only_thread();
}

VIPL_COLD void vipl_mutex_lock_slow(struct vipl_mutex *m)
{
    for (int i = 0; i < SPINS; i++) {
        if (vipl_load_relaxed(&m->word) == 0 && vipl_compare_exchange(&m->word, 0, 1)) {
            return;
        }
    }
    /* before the word is read again; pairs with vipl_mutex_unlock() */
    vipl_fetch_add(&m->sleepers, 1);
    vipl_barrier_everywhere();
    while (!vipl_compare_exchange(&m->word, 0, 1)) {
        if (vipl_futex_wait_for(&m->word, 1, LOOK_MS) != 0 && vipl_owners_are_gone()) {
            vipl_store_relaxed(&m->word, 1);
            break;
        }
    }
    vipl_fetch_add(&m->sleepers, (uint32_t)-1);
}

VIPL_COLD void vipl_mutex_unlock_slow(struct vipl_mutex *m)
{
    vipl_futex_wake_one(&m->word);
}
