/* SPDX-License-Identifier: MIT */
/*
 * Shared segments: sections of the paging file, whose size is fixed. No process passes one to
 * another yet (local.c), so that a retired segment is used again as it is.
 */
#include <errno.h>
#include <string.h>

#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "os/windows/descriptor.h"

struct section {
    struct vipl_object object;
    HANDLE handle; /* constant */
};

/* A retired segment (vipl_shm_retire()). */
struct retired {
    struct retired *next;
    HANDLE handle;
    void *base;
    size_t bytes;
};

static struct {
    struct vipl_mutex lock; /* guards all below */
    struct retired *first;
} kept = {.lock = VIPL_MUTEX_INIT(VIPL_RANK_OS_SHM)};

static void end_section(struct vipl_object *object)
{
    (void)CloseHandle(((struct section *)(void *)object)->handle);
    vipl_free(object);
}

/* Gives a section a number. On failure the handle is closed. */
static int add_section(HANDLE handle, int *fd)
{
    struct section *section = vipl_zalloc(sizeof(*section));
    if (section == NULL) {
        (void)CloseHandle(handle);
        return ENOMEM;
    }
    section->handle = handle;
    int error = vipl_object_add(&section->object, end_section, fd);
    if (error != 0) {
        end_section(&section->object);
    }
    return error;
}

/* Takes a retired segment of that size; NULL: there is none. */
static struct retired *take_retired(size_t bytes)
{
    vipl_mutex_lock(&kept.lock);
    struct retired **at = &kept.first;
    while (*at != NULL && (*at)->bytes != bytes) {
        at = &(*at)->next;
    }
    struct retired *found = *at;
    if (found != NULL) {
        *at = found->next;
    }
    vipl_mutex_unlock(&kept.lock);
    return found;
}

static int make_section(size_t bytes, HANDLE *handle, void **base)
{
    uint64_t size = bytes;
    *handle = CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, (DWORD)(size >> 32), (DWORD)size,
                                 NULL);
    if (*handle == NULL) {
        return vipl_errno_of(GetLastError());
    }
    *base = vipl_resource_fails(ENOMEM) ? NULL : MapViewOfFile(*handle, FILE_MAP_ALL_ACCESS, 0, 0, bytes);
    if (*base == NULL) {
        (void)CloseHandle(*handle);
        return ENOMEM;
    }
    return 0;
}

int vipl_shm_create(struct vipl_shm *shm, const char *label, size_t bytes)
{
    HANDLE handle;
    void *base;
    (void)label;
    struct retired *again = take_retired(bytes);
    if (again != NULL) {
        handle = again->handle;
        base = again->base;
        vipl_free(again);
    } else {
        int error = make_section(bytes, &handle, &base);
        if (error != 0) {
            return error;
        }
    }
    int error = add_section(handle, &shm->fd);
    if (error != 0) {
        (void)UnmapViewOfFile(base);
        return error;
    }
    shm->base = base;
    shm->bytes = bytes;
    return 0;
}

/* The system provides each page when it is first touched, and has promised all of them. */
int vipl_shm_create_sparse(struct vipl_shm *shm, const char *label, size_t bytes)
{
    return vipl_shm_create(shm, label, bytes);
}

int vipl_shm_allocate(void *first, size_t bytes)
{
    (void)first;
    (void)bytes;
    return 0;
}

int vipl_shm_attach(struct vipl_shm *shm, int fd, size_t bytes, bool writable)
{
    MEMORY_BASIC_INFORMATION info;
    struct vipl_object *object = vipl_object_get(fd, end_section);
    if (object == NULL) {
        return EINVAL;
    }
    HANDLE handle = ((struct section *)(void *)object)->handle;
    void *base = MapViewOfFile(handle, writable ? FILE_MAP_WRITE : FILE_MAP_READ, 0, 0, 0);
    int error = base == NULL ? vipl_errno_of(GetLastError()) : 0;
    vipl_object_put(object);
    if (error == 0 && (VirtualQuery(base, &info, sizeof(info)) == 0 || info.RegionSize < bytes)) {
        (void)UnmapViewOfFile(base);
        error = EINVAL;
    }
    if (error == 0) {
        *shm = (struct vipl_shm){fd, base, bytes};
    }
    return error;
}

void vipl_shm_close_fd(struct vipl_shm *shm)
{
    vipl_fd_close(shm->fd);
    shm->fd = -1;
}

void vipl_shm_release(struct vipl_shm *shm)
{
    if (shm->base != NULL) {
        (void)UnmapViewOfFile(shm->base);
    }
    shm->base = NULL;
    vipl_shm_close_fd(shm);
}

/* The section of a descriptor, as a handle of its own; NULL: the descriptor is closed. */
static HANDLE copy_handle(int fd)
{
    HANDLE copy = NULL;
    struct vipl_object *object = vipl_object_get(fd, end_section);
    if (object != NULL && !DuplicateHandle(GetCurrentProcess(), ((struct section *)(void *)object)->handle,
                                           GetCurrentProcess(), &copy, 0, FALSE, DUPLICATE_SAME_ACCESS)) {
        copy = NULL;
    }
    vipl_object_put(object);
    return copy;
}

/* A view of which no handle is left, or that may not be written, stays as it is for ever. */
void vipl_shm_retire(struct vipl_shm *shm)
{
    MEMORY_BASIC_INFORMATION info;
    HANDLE handle = shm->base == NULL ? NULL : copy_handle(shm->fd);
    bool writable = shm->base != NULL && VirtualQuery(shm->base, &info, sizeof(info)) != 0 &&
                    info.Protect == PAGE_READWRITE;
    struct retired *keep = handle == NULL || !writable ? NULL : vipl_alloc(sizeof(*keep));
    if (writable) {
        memset(shm->base, 0, shm->bytes);
    }
    if (keep != NULL) {
        *keep = (struct retired){.handle = handle, .base = shm->base, .bytes = shm->bytes};
        vipl_mutex_lock(&kept.lock);
        keep->next = kept.first;
        kept.first = keep;
        vipl_mutex_unlock(&kept.lock);
    } else if (handle != NULL) {
        (void)CloseHandle(handle);
    }
    shm->base = NULL;
    vipl_shm_close_fd(shm);
}

void vipl_shm_abandon(void)
{
    /* there is no fork */
}
