/* SPDX-License-Identifier: MIT */
/*
 * Lock files beside the paths of sockets. A process that opened the file before its removal notices
 * that when it gets the lock (is_named()), and opens the name again.
 */
#include "os/posix/path_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/os.h"

enum { LOCK_NAME = sizeof(((struct sockaddr_un *)0)->sun_path) + 8 };

static void name_lock(const char *path, char name[LOCK_NAME])
{
    snprintf(name, LOCK_NAME, "%s.lock", path);
}

/* Whether the locked file still has the name: its last owner may have removed it in between. */
static bool is_named(int fd, const char *name)
{
    struct stat mine;
    struct stat named;
    return fstat(fd, &mine) == 0 && lstat(name, &named) == 0 && mine.st_dev == named.st_dev &&
           mine.st_ino == named.st_ino;
}

static int lock_file(const char *name, int *lock)
{
    vipl_fd_begin();
    int fd = vipl_resource_fails(EMFILE) ? -1 : open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int error = vipl_fd_adopt(&fd);
    vipl_fd_end();
    if (error != 0) {
        return error;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        error = errno == EWOULDBLOCK ? EADDRINUSE : errno;
    } else if (!is_named(fd, name)) {
        error = ESTALE;
    }
    if (error != 0) {
        vipl_fd_close(fd);
        return error;
    }
    *lock = fd;
    return 0;
}

int vipl_path_lock(const char *path, int *lock)
{
    char name[LOCK_NAME];
    int error;
    name_lock(path, name);
    do {
        error = lock_file(name, lock);
    } while (error == ESTALE);
    return error;
}

bool vipl_path_is_locked(const char *path, int lock)
{
    char name[LOCK_NAME];
    name_lock(path, name);
    return lock >= 0 && is_named(lock, name);
}

void vipl_path_unlock(const char *path, int lock)
{
    char name[LOCK_NAME];
    name_lock(path, name);
    if (vipl_path_is_locked(path, lock)) {
        unlink(name);
    }
    vipl_fd_close(lock);
}

int vipl_path_remove_stale(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0) {
        return 0;
    }
    if (!S_ISSOCK(st.st_mode)) {
        return EEXIST;
    }
    return unlink(path) == 0 ? 0 : errno;
}
