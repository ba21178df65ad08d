/* SPDX-License-Identifier: MIT */
/*
 * Shared segments as memfds, which are sealed against resizing, so that a peer cannot take pages
 * away from the process that maps one; and segments at an address of choice, and those that peers
 * find by themselves.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "os/posix/shm.h"

/* The segment that this process has published (vipl_shm_show()). */
static struct {
    /* atomic: there is such a segment; written under lock, read without, since most programs
     * publish none */
    uint32_t is_published;
    struct vipl_mutex lock; /* guards all below */
    struct vipl_shm shm;    /* fd -1: nothing */
    uint64_t inode;
} mappable = {.lock = VIPL_MUTEX_INIT(VIPL_RANK_OS_SHM), .shm = {.fd = -1}};

/* --- the file --- */

int vipl_shm_file_new(const char *label)
{
    return memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

int vipl_shm_file_seal(int fd)
{
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 ? 0 : errno;
}

int vipl_shm_file_check(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    return seals < 0 || (seals & F_SEAL_SHRINK) == 0 ? EPERM : 0;
}

/* There is a candidate for each width of addresses that systems have. */
uintptr_t vipl_address_apart(unsigned nth, size_t bytes)
{
    static const uint64_t places[] = {UINT64_C(1) << 45, UINT64_C(1) << 40, UINT64_C(1) << 37,
                                      UINT64_C(1) << 30};
    enum { GRAIN_BITS = 21 };
    for (; nth < sizeof(places) / sizeof(places[0]); nth++) {
        uint64_t random = 0;
        (void)vipl_entropy(&random, sizeof(random));
        uint64_t address = places[nth] + (random % (places[nth] >> (GRAIN_BITS + 1)) << GRAIN_BITS);
        if (address + bytes < UINTPTR_MAX) {
            return (uintptr_t)address;
        }
    }
    return 0;
}

/* Maps the memory at an address that is probably free in other programs too, or else where the
 * system chooses. */
static int map_at_shared_address(struct vipl_shm *shm)
{
    uintptr_t address;
    for (unsigned i = 0; (address = vipl_address_apart(i, shm->bytes)) != 0; i++) {
        if (vipl_shm_map(shm, true, (void *)address) == 0) {
            return 0;
        }
    }
    return vipl_shm_map(shm, true, NULL);
}

int vipl_shm_reserve(struct vipl_shm *shm, const char *label, size_t bytes)
{
    int error = vipl_shm_make(shm, label, bytes, false);
    if (error == 0) {
        error = map_at_shared_address(shm);
        if (error != 0) {
            vipl_shm_close_fd(shm);
        }
    }
    return error;
}

/* --- pages --- */

/* MADV_POPULATE_WRITE, for headers from before Linux 5.14. */
enum { ALLOCATE_PAGES = 23 };

int vipl_shm_allocate(void *first, size_t bytes)
{
    int before = errno;
    size_t into_page = (uintptr_t)first % vipl_page_bytes();
    int error = vipl_resource_fails(ENOMEM) ? errno : 0;
    if (error == 0 && madvise((char *)first - into_page, bytes + into_page, ALLOCATE_PAGES) != 0) {
        error = errno == EINVAL ? ENOTSUP : errno;
    }
    errno = before;
    return error;
}

void vipl_shm_clear(void *pages, size_t bytes)
{
    volatile unsigned char *first = pages;
    *first = 1;
    madvise(pages, bytes, MADV_REMOVE);
    if (*first != 0) { /* an emulator that returns success without effect */
        memset(pages, 0, bytes);
    }
}

/* --- memory that peers may map --- */

void vipl_shm_shown_abandon(void)
{
    vipl_mutex_init(&mappable.lock, VIPL_RANK_OS_SHM);
    mappable.is_published = 0;
    mappable.shm = (struct vipl_shm){.fd = -1}; /* the descriptor was the parent's */
}

void vipl_shm_show(struct vipl_shm *shm)
{
    struct stat st;
    struct vipl_shm before = *shm;
    if (fstat(shm->fd, &st) == 0) {
        vipl_mutex_lock(&mappable.lock);
        before = mappable.shm;
        mappable.shm = *shm;
        mappable.inode = st.st_ino;
        vipl_store_relaxed(&mappable.is_published, 1);
        vipl_mutex_unlock(&mappable.lock);
    }
    vipl_shm_close_fd(&before);
    shm->fd = -1;
}

void vipl_shm_find_mappable(const void *address, size_t bytes, struct vipl_mappable *out)
{
    *out = (struct vipl_mappable){0};
    if (vipl_load_relaxed(&mappable.is_published) == 0) {
        return;
    }
    vipl_mutex_lock(&mappable.lock);
    uintptr_t offset = (uintptr_t)address - (uintptr_t)mappable.shm.base;
    if (mappable.shm.fd >= 0 && offset < mappable.shm.bytes && bytes <= mappable.shm.bytes - offset) {
        *out = (struct vipl_mappable){(uint32_t)mappable.shm.fd + 1, mappable.inode, offset};
    }
    vipl_mutex_unlock(&mappable.lock);
}

/* Opens what another process has at a descriptor, if that is the expected file: opening any other
 * could block or have effects. */
static int open_mappable(int pid, const struct vipl_mappable *where, int *fd)
{
    char path[40];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d/fd/%u", pid, where->descriptor - 1);
    if (stat(path, &st) != 0) {
        return errno;
    }
    if (!S_ISREG(st.st_mode) || st.st_ino != where->inode) {
        return ESTALE;
    }
    vipl_fd_begin();
    *fd = vipl_resource_fails(EMFILE) ? -1 : open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int error = vipl_fd_adopt(fd);
    vipl_fd_end();
    return error;
}

int vipl_shm_fetch(struct vipl_shm *shm, int pid, const struct vipl_mappable *where)
{
    struct stat st;
    int fd = -1;
    int error = open_mappable(pid, where, &fd);
    if (error != 0) {
        return error;
    }
    if (fstat(fd, &st) != 0 || st.st_ino != where->inode || (uint64_t)st.st_size > SIZE_MAX / 2) {
        error = ESTALE;
    } else {
        error = vipl_shm_attach(shm, fd, (size_t)st.st_size, true);
    }
    vipl_fd_close(fd);
    shm->fd = -1;
    return error;
}
