/* SPDX-License-Identifier: MIT */
/* Clock, process identity, environment and error texts. */
#undef _GNU_SOURCE /* for the strerror_r() of POSIX, which fills the buffer */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"

uint64_t vipl_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int vipl_pid(void)
{
    return (int)getpid();
}

unsigned vipl_cpu_count(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : (unsigned)count;
}

int vipl_host_name(char *name, size_t size)
{
    if (gethostname(name, size) != 0) {
        return errno;
    }
    name[size - 1] = '\0';
    return 0;
}

const char *vipl_environment(const char *name)
{
    return getenv(name);
}

extern char **environ; /* POSIX has a program declare it */

const char *vipl_environment_at(unsigned i)
{
    return environ == NULL ? NULL : environ[i];
}

const char *vipl_os_error(int error, char *text, size_t size)
{
    if (strerror_r(error, text, size) != 0) {
        text[0] = '\0';
    }
    return text;
}

void vipl_print_error(const char *text, size_t length)
{
    int saved = errno;
    int cancel = vipl_cancel_off();
    while (length > 0) {
        ssize_t n = write(STDERR_FILENO, text, length);
        if (n < 0 && errno != EINTR) {
            break;
        }
        text += n < 0 ? 0 : n;
        length -= n < 0 ? 0 : (size_t)n;
    }
    vipl_cancel_restore(cancel);
    errno = saved;
}
