/* SPDX-License-Identifier: MIT */
/*
 * Shared memory without a name: a memfd that is sealed against resizing, so that a peer cannot take
 * pages away from the process that maps it. Its pages are allocated in advance, unless the caller
 * wants them sparse: a full file system is then an error here, and not a SIGBUS later. A process
 * that dies leaves nothing behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"

/* An address of retired memory (vipl_shm_retire()). */
struct retired_range {
    struct retired_range *next;
    void *base;
    size_t bytes;
};

static struct {
    struct vipl_mutex lock; /* guards all below */
    struct retired_range *first;
} retired = {.lock = VIPL_MUTEX_INIT(VIPL_RANK_OS_SHM)};

/* The segment that this process has published (vipl_shm_show()). */
static struct {
    /* atomic: there is such a segment; written under lock, read without, since most programs
     * publish none */
    uint32_t is_published;
    struct vipl_mutex lock; /* guards all below */
    struct vipl_shm shm;    /* fd -1: nothing */
    uint64_t inode;
} mappable = {.lock = VIPL_MUTEX_INIT(VIPL_RANK_OS_SHM), .shm = {.fd = -1}};

static void *take_retired(size_t bytes)
{
    void *base = NULL;
    vipl_mutex_lock(&retired.lock);
    struct retired_range **at = &retired.first;
    while (*at != NULL && (*at)->bytes != bytes) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        struct retired_range *place = *at;
        *at = place->next;
        base = place->base;
        vipl_free(place);
    }
    vipl_mutex_unlock(&retired.lock);
    return base;
}

/* Returns false if there is no memory: the address is then not used again. */
static bool keep_retired(void *base, size_t bytes)
{
    struct retired_range *place = vipl_alloc(sizeof(*place));
    if (place == NULL) {
        return false;
    }
    place->base = base;
    place->bytes = bytes;
    vipl_mutex_lock(&retired.lock);
    place->next = retired.first;
    retired.first = place;
    vipl_mutex_unlock(&retired.lock);
    return true;
}

/* Maps the memory at `address`; for NULL, at a retired address of the same size, or where the
 * system chooses. */
static int map_memfd(struct vipl_shm *shm, bool writable, void *address)
{
    if (vipl_resource_fails(ENOMEM)) {
        return errno;
    }
    void *place = address == NULL ? take_retired(shm->bytes) : NULL;
    int how = address != NULL ? MAP_FIXED_NOREPLACE : place != NULL ? MAP_FIXED : 0;
    void *base = mmap(place != NULL ? place : address, shm->bytes,
                      writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | how, shm->fd, 0);
    if (base == MAP_FAILED) {
        int error = errno;
        if (place != NULL) { /* the address is still mapped */
            (void)keep_retired(place, shm->bytes);
        }
        return error;
    }
    if (address != NULL && base != address) { /* a kernel that does not know the flag */
        munmap(base, shm->bytes);
        return EEXIST;
    }
    shm->base = base;
    return 0;
}

/* Forked children do not get the mapping: they must not write there. */
static int keep_from_children(const struct vipl_shm *shm, int rc)
{
    if (rc == 0) {
        madvise(shm->base, shm->bytes, MADV_DONTFORK);
    }
    return rc;
}

/* Rounds the size up to whole pages, because an emulator whose pages are larger than the kernel's
 * maps only those. `now`: allocates the pages. */
static int set_size(int fd, size_t bytes, bool now)
{
    size_t page = vipl_page_bytes();
    bytes = (bytes + page - 1) / page * page;
    if (now) {
        return posix_fallocate(fd, 0, (off_t)bytes);
    }
    return ftruncate(fd, (off_t)bytes) == 0 ? 0 : errno;
}

/* Beyond the program's limit of file sizes the system returns EFBIG and sends this thread SIGXFSZ,
 * which would end the program. The signal is consumed here; one that was pending before stays
 * pending. */
static int set_size_within_limit(int fd, size_t bytes, bool now)
{
    const struct timespec at_once = {0, 0};
    sigset_t limit;
    sigset_t mask;
    sigset_t waiting;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, &mask);
    sigpending(&waiting);
    int rc = set_size(fd, bytes, now);
    while (rc == EFBIG && !sigismember(&waiting, SIGXFSZ) && sigtimedwait(&limit, NULL, &at_once) < 0 &&
           errno == EINTR) { /* again */
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return rc;
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
        if (map_memfd(shm, true, (void *)address) == 0) {
            return 0;
        }
    }
    return map_memfd(shm, true, NULL);
}

static int make_memfd(struct vipl_shm *shm, const char *label, size_t bytes, bool now, bool apart)
{
    vipl_fd_begin();
    int fd = vipl_resource_fails(EMFILE) ? -1 : memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int rc = vipl_fd_adopt(&fd);
    vipl_fd_end();
    if (rc != 0) {
        return rc;
    }
    shm->fd = fd;
    shm->bytes = bytes;
    rc = set_size_within_limit(fd, bytes, now);
    if (rc == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        rc = errno;
    }
    if (rc == 0) {
        rc = apart ? map_at_shared_address(shm) : map_memfd(shm, true, NULL);
    }
    if (rc != 0) {
        vipl_shm_close_fd(shm);
    }
    return rc;
}

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

int vipl_shm_create(struct vipl_shm *shm, const char *label, size_t bytes)
{
    return keep_from_children(shm, make_memfd(shm, label, bytes, true, false));
}

int vipl_shm_reserve(struct vipl_shm *shm, const char *label, size_t bytes)
{
    return make_memfd(shm, label, bytes, false, true);
}

int vipl_shm_create_sparse(struct vipl_shm *shm, const char *label, size_t bytes)
{
    return keep_from_children(shm, make_memfd(shm, label, bytes, false, false));
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

int vipl_shm_attach(struct vipl_shm *shm, int fd, size_t bytes, bool writable)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
        return EPERM;
    }
    if (fstat(fd, &st) != 0) {
        return errno;
    }
    if (st.st_size < 0 || (uint64_t)st.st_size < bytes) {
        return EINVAL;
    }
    shm->fd = fd;
    shm->bytes = bytes;
    return keep_from_children(shm, map_memfd(shm, writable, NULL));
}

void vipl_shm_close_fd(struct vipl_shm *shm)
{
    vipl_fd_close(shm->fd);
    shm->fd = -1;
}

void vipl_shm_release(struct vipl_shm *shm)
{
    if (shm->base != NULL) {
        munmap(shm->base, shm->bytes);
    }
    shm->base = NULL;
    vipl_shm_close_fd(shm);
}

/* Puts zero pages that take no memory in place of the mapping. If that fails the memory stays as it
 * is. */
void vipl_shm_retire(struct vipl_shm *shm)
{
    if (shm->base != NULL &&
        mmap(shm->base, shm->bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == shm->base) {
        (void)keep_retired(shm->base, shm->bytes);
    }
    shm->base = NULL;
    vipl_shm_close_fd(shm);
}

void vipl_shm_abandon(void)
{
    vipl_mutex_init(&retired.lock, VIPL_RANK_OS_SHM);
    vipl_mutex_init(&mappable.lock, VIPL_RANK_OS_SHM);
    retired.first = NULL;
    mappable.is_published = 0;
    mappable.shm = (struct vipl_shm){.fd = -1}; /* the descriptor was the parent's */
}

/* --- memory that peers may map --- */

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
