/* SPDX-License-Identifier: MIT */
/* The folder is checked each time: in /tmp anybody could have made it. */
#include "start/socket_path.h"

#include <errno.h>
#include <stdio.h>

#include "base/config.h"
#include "os/os.h"

static int default_path(const char *name, char path[VIPL_SOCKET_PATH_BYTES])
{
    char folder[VIPL_SOCKET_PATH_BYTES];
    const char *runtime = vipl_trusted_environment("XDG_RUNTIME_DIR");
    int length = runtime != NULL && runtime[0] == '/'
                     ? snprintf(folder, sizeof(folder), "%s/vipl", runtime)
                     : snprintf(folder, sizeof(folder), "/tmp/vipl-%u", (unsigned)vipl_local_user());
    if (length >= (int)sizeof(folder)) {
        return ENAMETOOLONG;
    }
    int error = vipl_private_folder(folder);
    if (error != 0) {
        return error;
    }
    length = snprintf(path, VIPL_SOCKET_PATH_BYTES, "%s/%s", folder, name);
    return length < VIPL_SOCKET_PATH_BYTES ? 0 : ENAMETOOLONG;
}

int vipl_socket_path(const char *setting, const char *name, char path[VIPL_SOCKET_PATH_BYTES])
{
    if (!vipl_config_text(setting, path, VIPL_SOCKET_PATH_BYTES)) {
        return default_path(name, path);
    }
    return path[0] == '/' ? 0 : EINVAL; /* another process would look for it elsewhere */
}
