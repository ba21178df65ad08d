/* SPDX-License-Identifier: MIT */
/*
 * Memory of a PCI function that the kernel gives out, `p2p:ADDRESS` (P2PDMA): the buffer of an NVMe
 * controller that the kernel's driver has. The kernel moves the data of files on such controllers
 * to and from there by O_DIRECT. A port reaches the memory by its physical addresses; VFIO does not
 * map it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dm/bytes.h"
#include "dm/memory.h"
#include "dm/pci.h"
#include "dm/reason.h"

#define PAGE 4096U

/* A file of the function's P2PDMA, or a negative errno value. */
static int open_file(const char *address, const char *file, int flags)
{
    char path[96];
    int fd;

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/p2pmem/%s", address, file);
    fd = open(path, flags | O_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}

/* The bytes that nobody has; 0 if the kernel does not say it. */
static uint64_t available_bytes(const char *address)
{
    char text[32];
    int fd = open_file(address, "available", O_RDONLY);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;

    if (fd >= 0) {
        close(fd);
    }
    text[length > 0 ? length : 0] = '\0';
    return strtoull(text, NULL, 10) / PAGE * PAGE;
}

static int fail_open(const char *address, int error, struct vipl_dm_reason *reason)
{
    if (error == ENOENT) {
        return dm_fail(reason, ENODEV,
                       "memory \"p2p:%s\": the kernel gives out no memory of that function (P2PDMA; of an "
                       "NVMe controller that has a buffer, and that the kernel's driver has)",
                       address);
    }
    return dm_fail(reason, error, "memory \"p2p:%s\": %s", address, strerror(error));
}

/* The kernel takes pages for the mapping, and gives them back at its end. */
static int take_pages(struct dm_memory *memory, const char *address, int fd, uint64_t wanted,
                      struct vipl_dm_reason *reason)
{
    uint64_t there = available_bytes(address);
    uint64_t bytes = wanted != 0               ? dm_round_up(wanted, PAGE)
                     : there < DM_MEMORY_BYTES ? there
                                               : DM_MEMORY_BYTES;
    void *mapping;

    if (bytes == 0 || bytes > there || bytes > SIZE_MAX) {
        return dm_fail(reason, ENOTSUP,
                       "memory \"p2p:%s\": %" PRIu64 " bytes of it are free, and not %" PRIu64, address,
                       there, bytes != 0 ? bytes : PAGE);
    }
    mapping = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED) {
        int error = errno;
        return dm_fail(reason, error, "memory \"p2p:%s\": %s", address, strerror(error));
    }
    (void)madvise(mapping, (size_t)bytes, MADV_DONTFORK);
    memory->base = mapping;
    memory->bytes = bytes;
    dm_clear_words(memory->base, memory->bytes); /* of its last user */
    return 0;
}

static void p2p_close(struct dm_memory *memory)
{
    munmap(memory->base, (size_t)memory->bytes);
    free(memory);
}

static int p2p_open(const char *argument, uint64_t wanted, struct dm_port *port, struct dm_memory **out,
                    struct vipl_dm_reason *reason)
{
    struct dm_memory *memory;
    int error;
    int fd;

    (void)port;
    if (!dm_pci_is_address(argument)) {
        return dm_fail(reason, EINVAL, "memory \"p2p:%.40s\" is not p2p:ADDRESS, such as p2p:0000:05:00.0",
                       argument);
    }
    fd = open_file(argument, "allocate", O_RDWR);
    if (fd < 0) {
        return fail_open(argument, -fd, reason);
    }
    memory = calloc(1, sizeof(*memory));
    if (memory == NULL) {
        close(fd);
        return dm_fail(reason, ENOMEM, "memory \"p2p:%s\": no memory", argument);
    }
    error = take_pages(memory, argument, fd, wanted, reason);
    close(fd); /* the mapping has it */
    if (error != 0) {
        free(memory);
        return error;
    }
    memory->kind = &dm_memory_p2p;
    memory->is_physical = true;
    snprintf(memory->text, sizeof(memory->text), "p2p:%s (memory of a function, from the kernel)", argument);
    *out = memory;
    return 0;
}

const struct dm_memory_kind dm_memory_p2p = {"p2p", false, p2p_open, p2p_close};
