/* SPDX-License-Identifier: MIT */
/* The names of this host. */
#include "base/hostname.h"

#include <string.h>

#include "os/os.h"

enum { MAX_NAME = 256 };

/* Returns true if `name` begins with the first `length` characters of `with`. Upper and lower case
 * (ASCII) are the same in host names. */
static bool has_host_prefix(const char *name, const char *with, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned a = (unsigned char)name[i];
        unsigned b = (unsigned char)with[i];
        a += a >= 'A' && a <= 'Z' ? 'a' - 'A' : 0;
        b += b >= 'A' && b <= 'Z' ? 'a' - 'A' : 0;
        if (a != b || a == '\0') {
            return false;
        }
    }
    return true;
}

static bool is_same_host(const char *name, const char *other)
{
    size_t length = strlen(name); /* a dot at the end says that the name is whole */
    length -= length > 1 && name[length - 1] == '.' ? 1 : 0;
    return length == strlen(other) && has_host_prefix(name, other, length);
}

/* A short name names a host in the domain of this host. A full name is compared with the full name
 * of this host, which comes from the resolver if the system has only a short one. */
bool vipl_hostname_is_own(const char *name)
{
    char host[MAX_NAME];
    if (is_same_host(name, "localhost")) {
        return true;
    }
    if (vipl_host_name(host, sizeof(host)) != 0) {
        return false;
    }
    size_t bare = strcspn(host, ".");
    bool begins = bare > 0 && has_host_prefix(name, host, bare);
    if (is_same_host(name, host)) {
        return true;
    }
    if (begins && name[bare] == '\0') {
        return true;
    }
    return begins && name[bare] == '.' && host[bare] == '\0' &&
           vipl_host_full_name(host, sizeof(host)) == 0 && is_same_host(name, host);
}
