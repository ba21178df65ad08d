// SPDX-License-Identifier: MIT
//
// Where the system shows the sockets of the library.
#ifndef VIPL_TESTS_SYSTEM_NAME_HPP
#define VIPL_TESTS_SYSTEM_NAME_HPP

#include <string>

#include <unistd.h>

#include "support/escaped.hpp"
#include "support/portable.hpp"

namespace vipl_test {

/** What /proc/net/unix calls a socket with that name, or with a name that begins so: the name
 * itself, or a path. */
inline std::string system_name(const std::string &name)
{
    if (!library_is_portable()) {
        return name;
    }
    return "/tmp/vipl-" + std::to_string(geteuid()) + "/" + escaped(name);
}

} // namespace vipl_test

#endif
