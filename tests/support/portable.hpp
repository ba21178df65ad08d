// SPDX-License-Identifier: MIT
//
// What the system's objects of the library are called, in an ordinary build and in one with
// VIPL_OS_PORTABLE: names of local sockets, and shared segments.
#ifndef VIPL_TESTS_PORTABLE_HPP
#define VIPL_TESTS_PORTABLE_HPP

#include <cctype>
#include <cstdio>
#include <cstring>
#include <string>

#include <unistd.h>

#include <vipl/posix.h>

namespace vipl_test {

/** Whether the library uses little more than POSIX. */
inline bool library_is_portable()
{
    return std::strstr(VipxBuildOptions(), "waker=pipe") != nullptr;
}

/** What /proc/self/maps calls each shared segment of the library. */
inline const char *segment_name()
{
    return library_is_portable() ? "/dev/shm/vipl-" : "/memfd:vipl-";
}

/** What /proc/net/unix calls a socket with that name, or with a name that begins so: the name
 * itself, or a path. */
inline std::string system_name(const std::string &name)
{
    if (!library_is_portable()) {
        return name;
    }
    std::string path = "/tmp/vipl-" + std::to_string(geteuid()) + "/";
    for (const char c : name) {
        char text[4] = {c, 0, 0, 0};
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
            std::snprintf(text, sizeof text, "_%02x", static_cast<unsigned char>(c));
        }
        path += text;
    }
    return path;
}

} // namespace vipl_test

#endif
