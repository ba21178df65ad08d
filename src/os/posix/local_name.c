/* SPDX-License-Identifier: MIT */
/*
 * Names as paths, in a folder of the user's alone. A lock file beside each path says whether a
 * process has it: the path of a process that was killed is found to be stale, and that of a living
 * one is not taken away from it. A killed process leaves both files, until another one wants that
 * name.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/os.h"
#include "os/posix/local.h"
#include "os/posix/path_lock.h"

static bool is_plain_byte(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Writes the path of a name: bytes other than digits and those of A-Z and a-z as hexadecimal
 * numbers, so that two names never have one path. */
static int make_path(struct sockaddr_un *a, const void *name, size_t length)
{
    const unsigned char *from = name;
    memset(a, 0, sizeof(*a));
    a->sun_family = AF_UNIX;
    char *path = a->sun_path;
    size_t at = (size_t)snprintf(path, sizeof(a->sun_path), "/tmp/vipl-%u/", (unsigned)geteuid());
    for (size_t i = 0; i < length; i++) {
        bool plain = is_plain_byte(from[i]);
        if (at + (plain ? 1 : 3) >= sizeof(a->sun_path)) {
            return ENAMETOOLONG;
        }
        at += (size_t)snprintf(path + at, sizeof(a->sun_path) - at, plain ? "%c" : "_%02x", from[i]);
    }
    return 0;
}

static int make_folder(void)
{
    char folder[32];
    snprintf(folder, sizeof(folder), "/tmp/vipl-%u", (unsigned)geteuid());
    return vipl_private_folder(folder);
}

/* The caller holds the lock of the path. */
static int bind_at_path(int s, const struct sockaddr_un *a)
{
    int error = vipl_path_remove_stale(a->sun_path);
    if (error == 0 && bind(s, (const struct sockaddr *)a, sizeof(*a)) != 0) {
        error = errno;
    }
    if (error == 0 && listen(s, VIPL_LOCAL_BACKLOG) != 0) {
        error = errno;
        unlink(a->sun_path);
    }
    return error;
}

int vipl_local_listen(const void *name, size_t length, int *fd, int *lock)
{
    struct sockaddr_un a;
    int s = -1;
    int held = -1;
    int error = make_path(&a, name, length);
    error = error == 0 ? make_folder() : error;
    error = error == 0 ? vipl_path_lock(a.sun_path, &held) : error;
    error = error == 0 ? vipl_local_open(&s) : error;
    error = error == 0 ? bind_at_path(s, &a) : error;
    if (error != 0) {
        vipl_fd_close(s);
        vipl_path_unlock(a.sun_path, held);
        return error;
    }
    *fd = s;
    *lock = held;
    return 0;
}

void vipl_local_unlisten(const void *name, size_t length, int fd, int lock)
{
    struct sockaddr_un a;
    (void)make_path(&a, name, length);
    if (vipl_path_is_locked(a.sun_path, lock)) { /* or this process has become another user */
        unlink(a.sun_path);
    }
    vipl_fd_close(fd);
    vipl_path_unlock(a.sun_path, lock);
}

int vipl_local_connect(const void *name, size_t length, int *fd)
{
    struct sockaddr_un a;
    int error = make_path(&a, name, length);
    error = error == 0 && *fd < 0 ? vipl_local_open(fd) : error;
    if (error != 0) {
        return error;
    }
    error = connect(*fd, (struct sockaddr *)&a, sizeof(a)) == 0 ? 0 : errno;
    return error == ENOENT ? ECONNREFUSED : error;
}
