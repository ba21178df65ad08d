/* SPDX-License-Identifier: MIT */
/*
 * Shared memory without a name. Its pages are allocated in advance, unless the caller wants them
 * sparse: a full file system is then an error here, and not a SIGBUS later. A process that dies
 * leaves nothing behind. What kind of file it is, is the system's (posix/shm.h).
 */
#include "os/posix/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os.h"
#include "os/os_mutex.h"
#include "os/posix/mman.h"
#include "os/posix/signals.h"

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

int vipl_shm_map(struct vipl_shm *shm, bool writable, void *address)
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
    if (address != NULL && base != address) { /* a system that does not know the flag */
        munmap(base, shm->bytes);
        return EEXIST;
    }
    shm->base = base;
    return 0;
}

/* Maps the memory, so that forked children do not have it: they must not write there. */
static int map_for_this_process(struct vipl_shm *shm, bool writable)
{
    int error = vipl_shm_map(shm, writable, NULL);
    if (error == 0) {
        vipl_keep_from_children(shm->base, shm->bytes);
    }
    return error;
}

/* ENOTSUP: the system allocates such memory when it is touched. */
static int allocate(int fd, off_t bytes)
{
    int error = ENOTSUP;
#if defined(_POSIX_ADVISORY_INFO) && _POSIX_ADVISORY_INFO > 0
    error = posix_fallocate(fd, 0, bytes);
#else
    (void)fd;
    (void)bytes;
#endif
    return error == ENODEV || error == EINVAL || error == EOPNOTSUPP ? ENOTSUP : error;
}

/* Rounds the size up to whole pages, because an emulator whose pages are larger than the kernel's
 * maps only those. `now`: allocates the pages. */
static int set_size(int fd, size_t bytes, bool now)
{
    size_t page = vipl_page_bytes();
    bytes = (bytes + page - 1) / page * page;
    int error = now ? allocate(fd, (off_t)bytes) : ENOTSUP;
    if (error == ENOTSUP) {
        error = ftruncate(fd, (off_t)bytes) == 0 ? 0 : errno;
    }
    return error;
}

/* Beyond the program's limit of file sizes the system returns EFBIG and sends this thread SIGXFSZ,
 * which would end the program. The signal is consumed here; one that was pending before stays
 * pending. */
static int set_size_within_limit(int fd, size_t bytes, bool now)
{
    sigset_t limit;
    sigset_t mask;
    sigset_t waiting;
    sigemptyset(&limit);
    sigaddset(&limit, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &limit, &mask);
    sigpending(&waiting);
    int rc = set_size(fd, bytes, now);
    if (rc == EFBIG) {
        vipl_signal_consume(SIGXFSZ, &waiting);
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return rc;
}

int vipl_shm_make(struct vipl_shm *shm, const char *label, size_t bytes, bool now)
{
    vipl_fd_begin();
    int fd = vipl_resource_fails(EMFILE) ? -1 : vipl_shm_file_new(label);
    int rc = vipl_fd_adopt(&fd);
    vipl_fd_end();
    if (rc != 0) {
        return rc;
    }
    shm->fd = fd;
    shm->bytes = bytes;
    rc = set_size_within_limit(fd, bytes, now);
    if (rc == 0) {
        rc = vipl_shm_file_seal(fd);
    }
    if (rc != 0) {
        vipl_shm_close_fd(shm);
    }
    return rc;
}

static int make_and_map(struct vipl_shm *shm, const char *label, size_t bytes, bool now)
{
    int error = vipl_shm_make(shm, label, bytes, now);
    if (error == 0) {
        error = map_for_this_process(shm, true);
        if (error != 0) {
            vipl_shm_close_fd(shm);
        }
    }
    return error;
}

int vipl_shm_create(struct vipl_shm *shm, const char *label, size_t bytes)
{
    return make_and_map(shm, label, bytes, true);
}

int vipl_shm_create_sparse(struct vipl_shm *shm, const char *label, size_t bytes)
{
    return make_and_map(shm, label, bytes, false);
}

int vipl_shm_attach(struct vipl_shm *shm, int fd, size_t bytes, bool writable)
{
    struct stat st;
    int error = vipl_shm_file_check(fd);
    if (error != 0) {
        return error;
    }
    if (fstat(fd, &st) != 0) {
        return errno;
    }
    if (st.st_size < 0 || (uint64_t)st.st_size < bytes) {
        return EINVAL;
    }
    shm->fd = fd;
    shm->bytes = bytes;
    return map_for_this_process(shm, writable);
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
    retired.first = NULL;
    vipl_shm_shown_abandon();
}
