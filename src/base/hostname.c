/* SPDX-License-Identifier: MIT */
/* The names of this host. */
#include "base/hostname.h"

#include <string.h>

#include "os/os.h"

bool vipl_hostname_is_own(const char *name)
{
    char host[256];
    if (strcmp(name, "localhost") == 0) {
        return true;
    }
    if (vipl_host_name(host, sizeof(host)) != 0) {
        return false;
    }
    size_t n = strlen(name);
    size_t bare = strcspn(host, ".");
    return strcmp(name, host) == 0 || (n == bare && strncmp(name, host, n) == 0) ||
           (strncmp(name, host, bare) == 0 && name[bare] == '.');
}
