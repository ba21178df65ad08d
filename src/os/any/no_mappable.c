/* SPDX-License-Identifier: MIT */
/* A system that shows no process the memory of another one: no segment is published. */
#include <errno.h>

#include "os/os.h"

void vipl_shm_show(struct vipl_shm *shm)
{
    vipl_shm_close_fd(shm);
}

void vipl_shm_find_mappable(const void *address, size_t bytes, struct vipl_mappable *out)
{
    (void)address;
    (void)bytes;
    *out = (struct vipl_mappable){0};
}

int vipl_shm_fetch(struct vipl_shm *shm, int pid, const struct vipl_mappable *where)
{
    (void)shm;
    (void)pid;
    (void)where;
    return ENOTSUP;
}
