/* SPDX-License-Identifier: MIT */
/* Where the local sockets of a user's own services are. */
#ifndef START_SOCKET_PATH_H
#define START_SOCKET_PATH_H

enum { VIPL_SOCKET_PATH_BYTES = 100 }; /* so that more can be put behind it */

/* The setting if there is one, else the file `name` in the user's folder, which is made if need be: XDG_RUNTIME_DIR/vipl, or, where that is not this
 * user's alone, /tmp/vipl-UID. EPERM: that folder is not this user's alone. EINVAL: the setting is no absolute path. */
int vipl_socket_path(const char *setting, const char *name, char path[VIPL_SOCKET_PATH_BYTES]);

#endif
