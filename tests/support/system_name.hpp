// SPDX-License-Identifier: MIT
//
// Where the system shows the sockets of the library.
#ifndef VIPL_TESTS_SYSTEM_NAME_HPP
#define VIPL_TESTS_SYSTEM_NAME_HPP

#include <cctype>
#include <cstdio>
#include <string>

#include <unistd.h>

#include "support/portable.hpp"

namespace vipl_test {

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
