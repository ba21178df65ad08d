/* SPDX-License-Identifier: MIT */
/* Where the local sockets of a user's services are. */
#ifndef START_SOCKET_PATH_H
#define START_SOCKET_PATH_H

enum { VIPL_SOCKET_PATH_BYTES = 100 }; /* leaves room for a suffix */

/* Writes the path that the setting has or, without one, the file `name` in the user's folder, which
 * is made if it is missing: XDG_RUNTIME_DIR/vipl or, if that does not belong to this user alone,
 * /tmp/vipl-UID. Returns 0 or an errno value. EPERM: the folder does not belong to this user alone.
 * EINVAL: the setting is not an absolute path. */
int vipl_socket_path(const char *setting, const char *name, char path[VIPL_SOCKET_PATH_BYTES]);

#endif
