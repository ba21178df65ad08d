/* SPDX-License-Identifier: MIT */
/* vipl-run: finding the program, and the library that is loaded into it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run.h"

#define LIBRARY "libvipl-sockets.so"

static bool is_program(const char *path)
{
    struct stat file;
    if (stat(path, &file) != 0) {
        return false;
    }
    if (!S_ISREG(file.st_mode)) {
        errno = EACCES;
        return false;
    }
    return access(path, X_OK) == 0;
}

/* PATH_MAX bytes hold "FOLDER/NAME"; an empty folder is the working directory. */
static bool join(char path[PATH_MAX], const char *folder, size_t length, const char *name)
{
    int n = snprintf(path, PATH_MAX, "%.*s%s%s", (int)length, folder, length > 0 ? "/" : "./", name);
    return n > 0 && n < PATH_MAX;
}

bool run_find_program(const char *name, char path[PATH_MAX])
{
    if (name[0] == '\0' || strlen(name) >= PATH_MAX) {
        errno = name[0] == '\0' ? ENOENT : ENAMETOOLONG;
        return false;
    }
    if (strchr(name, '/') != NULL) {
        strcpy(path, name);
        return is_program(path);
    }
    const char *folders = getenv("PATH");
    int error = ENOENT;
    for (const char *at = folders != NULL ? folders : "/bin:/usr/bin"; at != NULL;) {
        size_t length = strcspn(at, ":");
        if (join(path, at, length, name) && is_program(path)) {
            return true;
        }
        error = errno == EACCES ? EACCES : error;
        at = at[length] == ':' ? at + length + 1 : NULL;
    }
    errno = error;
    return false;
}

bool run_find_library(char path[PATH_MAX], char why[RUN_WHY_BYTES])
{
    /* In the build tree; where this program has been moved to with its folders; where it was
     * installed. */
    static const char *const places[] = {"../lib/" LIBRARY, VIPL_RUN_BESIDE "/" LIBRARY,
                                         VIPL_RUN_INSTALLED "/" LIBRARY};
    char own[PATH_MAX];
    char place[2 * PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", own, sizeof(own) - 1);
    own[length < 0 ? 0 : length] = '\0';
    char *slash = strrchr(own, '/');
    own[slash == NULL ? 0 : slash - own] = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(place, sizeof(place), "%s%s%s", places[i][0] == '/' ? "" : own,
                 places[i][0] == '/' ? "" : "/", places[i]);
        if (realpath(place, path) != NULL && access(path, R_OK) == 0) {
            if (strpbrk(path, " :") == NULL) {
                return true;
            }
            snprintf(why, RUN_WHY_BYTES, "LD_PRELOAD cannot name %s, which has a blank or a colon in it",
                     path);
            return false;
        }
    }
    snprintf(why, RUN_WHY_BYTES, LIBRARY " is not where it was installed, and not beside this program");
    return false;
}
