/* SPDX-License-Identifier: MIT */
/* PCI functions by their files in sysfs, and memory that a card reaches by physical addresses. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os.h"

enum { PATH = 128, LARGE_SHIFT = 21, LARGE_BYTES = 1 << LARGE_SHIFT, MAP_HUGE_POSITION = 26 };
static const uint64_t PAGEMAP_PRESENT = UINT64_C(1) << 63;
static const uint64_t PAGEMAP_FRAME = (UINT64_C(1) << 55) - 1;

bool vipl_pci_is_address(const char *address)
{
    static const char shape[] = "xxxx:xx:xx.x";
    size_t length = strlen(address);
    if (length != sizeof(shape) - 1) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (shape[i] == 'x' ? !isxdigit((unsigned char)address[i]) : address[i] != shape[i]) {
            return false;
        }
    }
    return true;
}

/* Opens a file in the function's folder of sysfs. */
static int open_sysfs_file(const char *address, const char *name, int flags, int *fd)
{
    char path[PATH];
    if (!vipl_pci_is_address(address)) {
        return ENODEV;
    }
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/%s", address, name);
    vipl_fd_begin();
    *fd = vipl_resource_fails(EMFILE) ? -1 : open(path, flags | O_CLOEXEC);
    int error = vipl_fd_adopt(fd);
    vipl_fd_end();
    return error == ENOENT ? ENODEV : error;
}

int vipl_pci_open(const char *address, const char *name, int *fd)
{
    int error = open_sysfs_file(address, name, O_RDWR, fd);
    if (error == 0 && flock(*fd, LOCK_EX | LOCK_NB) != 0) {
        error = errno == EWOULDBLOCK ? EBUSY : errno;
        vipl_fd_close(*fd);
        *fd = -1;
    }
    return error;
}

int vipl_pci_set(const char *address, const char *name, const char *value)
{
    int fd;
    int error = open_sysfs_file(address, name, O_WRONLY, &fd);
    if (error != 0) {
        return error;
    }
    error = write(fd, value, strlen(value)) >= 0 ? 0 : errno;
    vipl_fd_close(fd);
    return error;
}

bool vipl_pci_has_iommu(const char *address)
{
    char path[PATH];
    struct stat st;
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/iommu_group", address);
    return vipl_pci_is_address(address) && stat(path, &st) == 0;
}

bool vipl_pci_read(int fd, uint64_t offset, void *out, size_t bytes)
{
    return pread(fd, out, bytes, (off_t)offset) == (ssize_t)bytes;
}

bool vipl_pci_write(int fd, uint64_t offset, const void *in, size_t bytes)
{
    return pwrite(fd, in, bytes, (off_t)offset) == (ssize_t)bytes;
}

void *vipl_pci_map(int fd, uint64_t offset, size_t bytes)
{
    if (vipl_resource_fails(ENOMEM)) {
        return NULL;
    }
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    if (base == MAP_FAILED) {
        return NULL;
    }
    (void)madvise(base, bytes, MADV_DONTFORK);
    return base;
}

void vipl_pci_unmap(void *base, size_t bytes)
{
    munmap(base, bytes);
}

/* --- memory --- */

static void *map_large(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | LARGE_SHIFT << MAP_HUGE_POSITION, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

/* Aligns the memory so that the system may back it with large pages, each of which the IOMMU maps
 * as one. */
static void *map_aligned(size_t bytes)
{
    uint8_t *pages =
        mmap(NULL, bytes + LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        return NULL;
    }
    size_t before = (LARGE_BYTES - (uintptr_t)pages % LARGE_BYTES) % LARGE_BYTES;
    if (before > 0) {
        munmap(pages, before);
    }
    munmap(pages + before + bytes, LARGE_BYTES - before);
    (void)madvise(pages + before, bytes, MADV_HUGEPAGE);
    return pages + before;
}

void *vipl_dma_pages(size_t bytes, bool physical)
{
    if (vipl_resource_fails(ENOMEM) || bytes > SIZE_MAX / 2 || (physical && bytes != LARGE_BYTES)) {
        return NULL;
    }
    void *pages = physical ? map_large(bytes) : map_aligned(bytes);
    if (pages != NULL) {
        (void)madvise(pages, bytes, MADV_DONTFORK);
    }
    return pages;
}

void vipl_dma_pages_free(void *pages, size_t bytes)
{
    munmap(pages, bytes);
}

int vipl_memory_lock(const void *address, size_t bytes)
{
    if (vipl_resource_fails(ENOMEM)) {
        return errno;
    }
    /* EREMOTEIO: they are pages of a device (P2PDMA), which stay where they are */
    return mlock(address, bytes) == 0 || errno == EREMOTEIO ? 0 : errno;
}

void vipl_memory_unlock(const void *address, size_t bytes)
{
    (void)munlock(address, bytes);
}

/* Reads the entries of the kernel's list of this process's pages. */
static int read_pagemap(const void *address, size_t count, uint64_t *out)
{
    int fd = vipl_resource_fails(EMFILE) ? -1 : open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    size_t bytes = count * sizeof(*out);
    off_t at = (off_t)((uintptr_t)address / vipl_page_bytes() * sizeof(*out));
    size_t done = 0;
    ssize_t n = 1;
    while (done < bytes && n > 0) {
        n = pread(fd, (uint8_t *)out + done, bytes - done, at + (off_t)done);
        done += n > 0 ? (size_t)n : 0;
    }
    int error = done == bytes ? 0 : n < 0 ? errno : EFAULT;
    close(fd);
    return error;
}

int vipl_physical_pages(const void *address, size_t count, uint64_t *out)
{
    int error = read_pagemap(address, count, out);
    if (error != 0) {
        return error;
    }
    for (size_t i = 0; i < count; i++) {
        if ((out[i] & PAGEMAP_PRESENT) == 0) {
            out[i] = 0;
            error = EFAULT;
            continue;
        }
        out[i] = (out[i] & PAGEMAP_FRAME) * vipl_page_bytes();
        if (out[i] == 0) { /* the kernel hides frames from those without the right */
            return EPERM;
        }
    }
    return error;
}
