/* SPDX-License-Identifier: MIT */
/* The names of this host. */
#include "base/hostname.h"

#include <string.h>

#include "os/os.h"

enum { MAX_NAME = 256 };

/* Names of hosts are the same in large and small letters, which are those of ASCII. */
static bool begins_with(const char *name, const char *with, size_t length)
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

static bool is_same(const char *name, const char *other)
{
    size_t length = strlen(name); /* a dot at the end says that the name is whole */
    length -= length > 1 && name[length - 1] == '.' ? 1 : 0;
    return length == strlen(other) && begins_with(name, other, length);
}

/* A short name is that of a host in this one's domain. A whole one is compared as a whole, also if the system has but a short one for
 * this host: then the resolver knows the rest. */
bool vipl_hostname_is_own(const char *name)
{
    char host[MAX_NAME];
    if (is_same(name, "localhost")) {
        return true;
    }
    if (vipl_host_name(host, sizeof(host)) != 0) {
        return false;
    }
    size_t bare = strcspn(host, ".");
    bool begins = bare > 0 && begins_with(name, host, bare);
    if (is_same(name, host)) {
        return true;
    }
    if (begins && name[bare] == '\0') {
        return true;
    }
    return begins && name[bare] == '.' && host[bare] == '\0' &&
           vipl_host_full_name(host, sizeof(host)) == 0 && is_same(name, host);
}
