/* SPDX-License-Identifier: MIT */
/*
 * Names of this process alone: processes do not meet over loopback on Windows yet. A listener has
 * its name, and nobody calls it; no other name is found.
 */
#include <errno.h>
#include <string.h>

#include "os/windows/descriptor.h"

struct listener {
    struct vipl_object object;
    struct listener *next; /* guarded by vipl_objects */
    size_t length;         /* constant */
    unsigned char name[];  /* constant */
};

static struct listener *listeners; /* guarded by vipl_objects */

static void end_listener(struct vipl_object *object)
{
    struct listener *listener = (struct listener *)(void *)object;
    AcquireSRWLockExclusive(&vipl_objects);
    struct listener **at = &listeners;
    while (*at != NULL && *at != listener) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = listener->next;
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    vipl_free(listener);
}

/* Lists the listener, unless its name is taken. */
static bool take_name(struct listener *listener)
{
    AcquireSRWLockExclusive(&vipl_objects);
    struct listener *other = listeners;
    while (other != NULL &&
           (other->length != listener->length || memcmp(other->name, listener->name, other->length) != 0)) {
        other = other->next;
    }
    if (other == NULL) {
        listener->next = listeners;
        listeners = listener;
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    return other == NULL;
}

int vipl_local_listen(const void *name, size_t length, int *fd, int *lock)
{
    struct listener *listener = vipl_zalloc(sizeof(*listener) + length);
    if (listener == NULL) {
        return ENOMEM;
    }
    listener->length = length;
    memcpy(listener->name, name, length);
    if (!take_name(listener)) {
        vipl_free(listener);
        return EADDRINUSE;
    }
    int error = vipl_object_add(&listener->object, end_listener, fd);
    if (error != 0) {
        end_listener(&listener->object);
        return error;
    }
    *lock = -1;
    return 0;
}

void vipl_local_unlisten(const void *name, size_t length, int fd, int lock)
{
    (void)name;
    (void)length;
    (void)lock;
    vipl_fd_close(fd);
}

int vipl_local_connect(const void *name, size_t length, int *fd)
{
    (void)name;
    (void)length;
    (void)fd;
    return ECONNREFUSED;
}

int vipl_local_accept(int listener, int *fd)
{
    (void)listener;
    (void)fd;
    return EAGAIN;
}

uint32_t vipl_local_user(void)
{
    return 0;
}

/* --- connected ends: there are none --- */

int vipl_local_peer(int fd, int *pid, uint32_t *user)
{
    (void)fd;
    (void)pid;
    (void)user;
    return EBADF;
}

int vipl_local_send(int fd, const void *bytes, size_t length, const int *pass_fds, unsigned fd_count)
{
    (void)fd;
    (void)bytes;
    (void)length;
    (void)pass_fds;
    (void)fd_count;
    return EBADF;
}

int vipl_local_receive(int fd, void *bytes, size_t size, size_t *length, int fds[2])
{
    (void)fd;
    (void)bytes;
    (void)size;
    (void)length;
    fds[0] = fds[1] = -1;
    return EBADF;
}

bool vipl_local_has_hung_up(int fd)
{
    (void)fd;
    return true;
}
