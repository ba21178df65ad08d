/* SPDX-License-Identifier: MIT */
/* Folders of one user alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os.h"

/* Opens the folder itself, even if it may be neither read nor searched. */
static int open_folder(const char *path, int *fd)
{
    vipl_fd_begin();
    *fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int error = vipl_fd_adopt(fd);
    vipl_fd_end();
    return error == ENOTDIR || error == ELOOP ? EPERM : error;
}

/* Sets mode 0700, because the program's umask may have left the owner less. */
static int set_mode(int fd)
{
    char name[64];
    snprintf(name, sizeof(name), "/proc/thread-self/fd/%d", fd);
    return chmod(name, 0700) == 0 ? 0 : errno;
}

int vipl_private_folder(const char *path)
{
    struct stat st;
    int fd;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return errno;
    }
    int error = open_folder(path, &fd);
    if (error != 0) {
        return error;
    }
    if (fstat(fd, &st) != 0) {
        error = errno;
    } else if (st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        error = EPERM;
    } else if ((st.st_mode & 0700) != 0700) {
        error = set_mode(fd);
    }
    vipl_fd_close(fd);
    return error;
}

int vipl_own_folder(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0) {
        return errno;
    }
    return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0 ? 0 : EPERM;
}
