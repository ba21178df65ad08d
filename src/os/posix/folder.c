/* SPDX-License-Identifier: MIT */
/* Folders of one user alone. In a folder that belongs to this user, or that has the sticky bit, no
 * other user can put another one in the place of what has been looked at. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os.h"

int vipl_private_folder(const char *path)
{
    struct stat st;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return errno;
    }
    if (lstat(path, &st) != 0) {
        return errno;
    }
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        return EPERM;
    }
    /* the program's umask may have left the owner less */
    return (st.st_mode & 0700) == 0700 || chmod(path, 0700) == 0 ? 0 : errno;
}
