/* SPDX-License-Identifier: MIT */
/* The user's folder for sockets. It is checked each time, because in /tmp anyone could have made
 * it. An unsuitable XDG_RUNTIME_DIR is logged, once, and the next choice is taken. */
#include "start/socket_path.h"

#include <errno.h>
#include <stdio.h>

#include "base/config.h"
#include "base/log.h"
#include "os/os.h"
#include "os/os_atomic.h"

/* The file `name` in a folder that must belong to the user alone. */
static int path_in(const char *folder, const char *name, char path[VIPL_SOCKET_PATH_BYTES])
{
    int length = snprintf(path, VIPL_SOCKET_PATH_BYTES, "%s/%s", folder, name);
    return length >= VIPL_SOCKET_PATH_BYTES ? ENAMETOOLONG : vipl_private_folder(folder);
}

/* XDG_RUNTIME_DIR must belong to this user. It does not where a program has become another user and
 * kept the environment. */
static int path_in_runtime(const char *runtime, const char *name, char path[VIPL_SOCKET_PATH_BYTES])
{
    char folder[VIPL_SOCKET_PATH_BYTES];
    if (runtime[0] != '/') {
        return EINVAL;
    }
    if (snprintf(folder, sizeof(folder), "%s/vipl", runtime) >= (int)sizeof(folder)) {
        return ENAMETOOLONG;
    }
    int error = vipl_own_folder(runtime);
    return error == 0 ? path_in(folder, name, path) : error;
}

static void log_passed_over(const char *runtime, int error)
{
    static uint32_t told; /* atomic */
    char text[128];
    if (vipl_exchange(&told, 1) == 0) {
        vipl_log(VIPL_LOG_ERROR, "XDG_RUNTIME_DIR=%s is passed over: %s", runtime,
                 error == EPERM    ? "it, or vipl in it, is not a folder of this user's alone"
                 : error == EINVAL ? "it is not an absolute path"
                                   : vipl_os_error(error, text, sizeof(text)));
    }
}

static int default_path(const char *name, char path[VIPL_SOCKET_PATH_BYTES])
{
    char folder[VIPL_SOCKET_PATH_BYTES];
    const char *runtime = vipl_has_more_rights() ? NULL : vipl_environment("XDG_RUNTIME_DIR");
    if (runtime != NULL && runtime[0] != '\0') {
        int error = path_in_runtime(runtime, name, path);
        if (error == 0) {
            return 0;
        }
        log_passed_over(runtime, error);
    }
    snprintf(folder, sizeof(folder), "/tmp/vipl-%u", (unsigned)vipl_local_user());
    return path_in(folder, name, path);
}

int vipl_socket_path(const char *setting, const char *name, char path[VIPL_SOCKET_PATH_BYTES])
{
    if (!vipl_config_text(setting, path, VIPL_SOCKET_PATH_BYTES)) {
        return default_path(name, path);
    }
    return path[0] == '/' ? 0 : EINVAL; /* a relative path means another file in another process */
}
