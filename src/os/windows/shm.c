/* SPDX-License-Identifier: MIT */
/*
 * Shared segments: sections of the paging file, whose size is fixed. A process keeps a list of its
 * views of sections, so that a retired one can be used again: it was only this process's, or the
 * one process that had it too has ended.
 */
#include <errno.h>
#include <string.h>

#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "os/windows/descriptor.h"

/* What the system tells of a section. No header of mingw-w64 declares it. */
enum { SECTION_BASIC = 0 };
struct section_information {
    void *base;
    ULONG attributes;
    LARGE_INTEGER bytes;
};
LONG NTAPI NtQuerySection(HANDLE section, ULONG what, void *out, SIZE_T size, SIZE_T *length);

struct section {
    struct vipl_object object;
    HANDLE handle; /* constant */
    HANDLE peer;   /* guarded by views.lock: a process that may have it too; NULL: none */
    bool several;  /* guarded by views.lock: more than one process may have it */
};

/* A mapping of a section. */
struct view {
    struct view *next;
    struct section *of; /* with a reference */
    void *base;
    size_t bytes;
    bool writable;
};

static struct {
    struct vipl_mutex lock; /* guards all below */
    struct view *used;
    struct view *retired; /* vipl_shm_retire() */
} views = {.lock = VIPL_MUTEX_INIT(VIPL_RANK_OS_SHM)};

static void end_section(struct vipl_object *object)
{
    struct section *section = (struct section *)(void *)object;
    (void)CloseHandle(section->handle);
    if (section->peer != NULL) {
        (void)CloseHandle(section->peer);
    }
    vipl_free(section);
}

/* Gives a section a number. On failure the handle is closed. */
static int add_section(HANDLE handle, int *fd, struct section **out)
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
    } else if (out != NULL) {
        vipl_fetch_add(&section->object.references, 1);
        *out = section;
    }
    return error;
}

/* --- sections that other processes have --- */

/* Notes that a process may have the section. */
static void share_with(struct section *section, HANDLE process)
{
    HANDLE copy = NULL;
    (void)DuplicateHandle(GetCurrentProcess(), process, GetCurrentProcess(), &copy, 0, FALSE,
                          DUPLICATE_SAME_ACCESS);
    vipl_mutex_lock(&views.lock);
    section->several = section->several || section->peer != NULL || copy == NULL;
    if (section->peer == NULL) {
        section->peer = copy;
        copy = NULL;
    }
    vipl_mutex_unlock(&views.lock);
    if (copy != NULL) {
        (void)CloseHandle(copy);
    }
}

int vipl_section_adopt(HANDLE handle, HANDLE process, int *fd)
{
    struct section *section;
    int error = add_section(handle, fd, &section);
    if (error == 0) {
        share_with(section, process);
        vipl_object_put(&section->object);
    }
    return error;
}

int vipl_section_pass(int fd, HANDLE process, HANDLE *handle)
{
    struct vipl_object *object = vipl_object_get(fd, end_section);
    if (object == NULL) {
        return EBADF;
    }
    struct section *section = (struct section *)(void *)object;
    bool good = DuplicateHandle(GetCurrentProcess(), section->handle, GetCurrentProcess(), handle, 0, FALSE,
                                DUPLICATE_SAME_ACCESS) != 0;
    int error = good ? 0 : vipl_errno_of(GetLastError());
    if (good) {
        share_with(section, process);
    }
    vipl_object_put(object);
    return error;
}

/* Whether no other process has the section. The lock is held. */
static bool is_ours_alone(const struct section *section)
{
    return !section->several &&
           (section->peer == NULL || WaitForSingleObject(section->peer, 0) == WAIT_OBJECT_0);
}

/* --- views --- */

/* Takes a used view of that address out of the list; NULL: there is none. */
static struct view *take_view(const void *base)
{
    vipl_mutex_lock(&views.lock);
    struct view **at = &views.used;
    while (*at != NULL && (*at)->base != base) {
        at = &(*at)->next;
    }
    struct view *found = *at;
    if (found != NULL) {
        *at = found->next;
    }
    vipl_mutex_unlock(&views.lock);
    return found;
}

static void add_view(struct view *view)
{
    vipl_mutex_lock(&views.lock);
    view->next = views.used;
    views.used = view;
    vipl_mutex_unlock(&views.lock);
}

/* Takes a retired view of that size which may be used again; NULL: there is none. */
static struct view *take_retired(size_t bytes)
{
    vipl_mutex_lock(&views.lock);
    struct view **at = &views.retired;
    while (*at != NULL && ((*at)->bytes != bytes || !(*at)->writable || !is_ours_alone((*at)->of))) {
        at = &(*at)->next;
    }
    struct view *found = *at;
    if (found != NULL) {
        *at = found->next;
    }
    vipl_mutex_unlock(&views.lock);
    return found;
}

static void retire(struct view *view)
{
    vipl_mutex_lock(&views.lock);
    if (view->writable && is_ours_alone(view->of)) {
        memset(view->base, 0, view->bytes);
    }
    view->next = views.retired;
    views.retired = view;
    vipl_mutex_unlock(&views.lock);
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

/* Makes the view of a new section. On failure nothing is left of it. */
static int make_view(struct view *view, size_t bytes, int *fd)
{
    HANDLE handle;
    int error = make_section(bytes, &handle, &view->base);
    if (error != 0) {
        return error;
    }
    error = add_section(handle, fd, &view->of);
    if (error != 0) {
        (void)UnmapViewOfFile(view->base);
    }
    view->bytes = bytes;
    view->writable = true;
    return error;
}

/* Gives the section of a retired view a number once more: it is another section then. On failure
 * the view stays as it is. */
static int use_again(struct view *view, int *fd)
{
    struct section *section = view->of;
    HANDLE handle = NULL;
    if (!DuplicateHandle(GetCurrentProcess(), section->handle, GetCurrentProcess(), &handle, 0, FALSE,
                         DUPLICATE_SAME_ACCESS)) {
        return vipl_errno_of(GetLastError());
    }
    int error = add_section(handle, fd, &view->of);
    if (error == 0) {
        vipl_object_put(&section->object);
        memset(view->base, 0, view->bytes);
    }
    return error;
}

int vipl_shm_create(struct vipl_shm *shm, const char *label, size_t bytes)
{
    (void)label;
    struct view *view = take_retired(bytes);
    int error;
    if (view != NULL) {
        error = use_again(view, &shm->fd);
        if (error != 0) {
            retire(view);
        }
    } else {
        view = vipl_zalloc(sizeof(*view));
        error = view == NULL ? ENOMEM : make_view(view, bytes, &shm->fd);
        if (error != 0) {
            vipl_free(view);
        }
    }
    if (error != 0) {
        return error;
    }
    shm->base = view->base;
    shm->bytes = bytes;
    add_view(view);
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

/* EPERM: the section is of a file, which might go, or it is not known; EINVAL: it has
 * fewer bytes. */
static int check_view(HANDLE handle, const void *base, size_t bytes)
{
    MEMORY_BASIC_INFORMATION info;
    struct section_information about = {0};
    if (NtQuerySection(handle, SECTION_BASIC, &about, sizeof(about), NULL) < 0 ||
        (about.attributes & SEC_FILE) != 0) {
        return EPERM;
    }
    bool good =
        VirtualQuery(base, &info, sizeof(info)) != 0 && info.State == MEM_COMMIT && info.RegionSize >= bytes;
    return good ? 0 : EINVAL;
}

static int map_view(struct section *section, struct view *view, size_t bytes, bool writable)
{
    void *base = vipl_resource_fails(ENOMEM)
                     ? NULL
                     : MapViewOfFile(section->handle, writable ? FILE_MAP_WRITE : FILE_MAP_READ, 0, 0, 0);
    if (base == NULL) {
        return vipl_errno_of(GetLastError());
    }
    int error = check_view(section->handle, base, bytes);
    if (error != 0) {
        (void)UnmapViewOfFile(base);
        return error;
    }
    *view = (struct view){.of = section, .base = base, .bytes = bytes, .writable = writable};
    return 0;
}

int vipl_shm_attach(struct vipl_shm *shm, int fd, size_t bytes, bool writable)
{
    struct vipl_object *object = vipl_object_get(fd, end_section);
    struct view *view = object == NULL ? NULL : vipl_alloc(sizeof(*view));
    int error = object == NULL ? EINVAL : ENOMEM;
    if (view != NULL) {
        error = map_view((struct section *)(void *)object, view, bytes, writable);
    }
    if (error != 0) {
        vipl_free(view);
        vipl_object_put(object);
        return error;
    }
    *shm = (struct vipl_shm){fd, view->base, bytes};
    add_view(view); /* it has the reference */
    return 0;
}

void vipl_shm_close_fd(struct vipl_shm *shm)
{
    vipl_fd_close(shm->fd);
    shm->fd = -1;
}

void vipl_shm_release(struct vipl_shm *shm)
{
    struct view *view = shm->base == NULL ? NULL : take_view(shm->base);
    if (view != NULL) {
        (void)UnmapViewOfFile(view->base);
        vipl_object_put(&view->of->object);
        vipl_free(view);
    }
    shm->base = NULL;
    vipl_shm_close_fd(shm);
}

/* What another process may still have stays as it is, and what may not be written does so for
 * ever. */
void vipl_shm_retire(struct vipl_shm *shm)
{
    struct view *view = shm->base == NULL ? NULL : take_view(shm->base);
    if (view != NULL) {
        retire(view);
    }
    shm->base = NULL;
    vipl_shm_close_fd(shm);
}

void vipl_shm_clear(void *pages, size_t bytes)
{
    memset(pages, 0, bytes);
}

void vipl_shm_abandon(void)
{
    /* there is no fork */
}
