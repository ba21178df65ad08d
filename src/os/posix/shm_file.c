/* SPDX-License-Identifier: MIT */
/*
 * Shared segments as files of shm_open() that have lost their names. The system cannot seal them: a
 * peer of the same user can shrink one, and this process then ends by SIGBUS (SECURITY.md).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "os/os.h"
#include "os/posix/shm.h"

/* A name that is taken is another process's, or the random number is bad: both are errors. */
int vipl_shm_file_new(const char *label)
{
    char name[32];
    uint64_t random = 0;
    (void)label;
    int error = vipl_entropy(&random, sizeof(random));
    if (error != 0) {
        errno = error;
        return -1;
    }
    snprintf(name, sizeof(name), "/vipl-%016" PRIx64, random);
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd >= 0) {
        shm_unlink(name);
    }
    return fd;
}

int vipl_shm_file_seal(int fd)
{
    (void)fd;
    return 0;
}

int vipl_shm_file_check(int fd)
{
    (void)fd;
    return 0;
}

int vipl_shm_allocate(void *first, size_t bytes)
{
    (void)first;
    (void)bytes;
    return ENOTSUP;
}

void vipl_shm_clear(void *pages, size_t bytes)
{
    memset(pages, 0, bytes);
}

/* --- memory that peers find by themselves: the system shows them none --- */

void vipl_shm_shown_abandon(void)
{
    /* nothing is published */
}
