/* SPDX-License-Identifier: MIT */
/* Clock, process identity, environment and error texts. */
#ifdef __linux__ /* the strerror_r() of POSIX fills the buffer; other systems have no other */
#undef _GNU_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif
#ifdef __APPLE__
#include <crt_externs.h>
#endif

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

bool vipl_has_more_rights(void)
{
#ifdef __linux__
    return getauxval(AT_SECURE) != 0;
#else
    return issetugid() != 0;
#endif
}

#ifdef __APPLE__ /* libraries have no such variable there */
#define environ (*_NSGetEnviron())
#else
extern char **environ; /* POSIX has a program declare it */
#endif

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
