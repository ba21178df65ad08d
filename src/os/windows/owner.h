/* SPDX-License-Identifier: MIT */
/* Users and the processes at the other ends of pipes, inside src/os/windows. */
#ifndef VIPL_OS_WINDOWS_OWNER_H
#define VIPL_OS_WINDOWS_OWNER_H

#include "os/windows/descriptor.h"

/* Gives access to the user of this process, and to nobody else. */
struct vipl_owner_only {
    SECURITY_ATTRIBUTES attributes; /* what calls of the system take */
    SECURITY_DESCRIPTOR descriptor;
    uint64_t acl[16];
};
int vipl_owner_only(struct vipl_owner_only *out);

/* A process, which keeps its number for as long as `handle` is open. */
struct vipl_owner {
    DWORD pid;
    HANDLE handle; /* NULL: this process may not duplicate handles of that one */
    uint32_t user; /* vipl_local_user() if it is the same */
};
/* Returns the process at the other end of a pipe of which this process has the server's end or the
 * client's. The caller closes the handle. */
struct vipl_owner vipl_owner_of_other_end(HANDLE pipe, bool is_server);

#endif
