/* SPDX-License-Identifier: MIT */
/* What the system tells of the threads of this process. */
#include <errno.h>
#include <sys/stat.h>

#include "os/os.h"

/* The folder has a link for each thread, and two more. */
bool vipl_is_only_thread(void)
{
    struct stat threads;
    int saved = errno;
    bool only = stat("/proc/self/task", &threads) == 0 && threads.st_nlink == 3;
    errno = saved;
    return only;
}
