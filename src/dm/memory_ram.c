/* SPDX-License-Identifier: MIT */
/* Main memory, `ram`: pages of this process, which are there before the first packet. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "dm/memory.h"
#include "dm/reason.h"

static int ram_open(const char *argument, uint64_t wanted, struct dm_port *port, struct dm_memory **memory,
                    struct vipl_dm_reason *reason)
{
    uint64_t bytes = wanted != 0 ? wanted : DM_MEMORY_BYTES;
    struct dm_memory *ram;
    void *pages;

    (void)port;
    if (argument[0] != '\0') {
        return dm_fail(reason, EINVAL, "memory \"ram\" has no argument");
    }
    ram = bytes > SIZE_MAX ? NULL : calloc(1, sizeof(*ram));
    if (ram == NULL) {
        return dm_fail(reason, ENOMEM, "memory \"ram\": no memory");
    }
    pages = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        int error = errno;
        free(ram);
        return dm_fail(reason, error, "memory \"ram\": %s", strerror(error));
    }
    (void)madvise(pages, (size_t)bytes, MADV_HUGEPAGE); /* the system may have none */
    memset(pages, 0, (size_t)bytes);
    ram->kind = &dm_memory_ram;
    ram->base = pages;
    ram->bytes = bytes;
    snprintf(ram->text, sizeof(ram->text), "ram");
    *memory = ram;
    return 0;
}

static void ram_close(struct dm_memory *memory)
{
    munmap(memory->base, (size_t)memory->bytes);
    free(memory);
}

const struct dm_memory_kind dm_memory_ram = {"ram", true, ram_open, ram_close};
