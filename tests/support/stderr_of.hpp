// SPDX-License-Identifier: MIT
//
// What the library writes to the standard error output, for tests of the static library: through a
// pipe, for in a file that takes the output's place the library would see one of the program's.
#ifndef VIPL_TESTS_STDERR_OF_HPP
#define VIPL_TESTS_STDERR_OF_HPP

#include <functional>
#include <string>

#include "support/system.hpp"

extern "C" {
#include "os/os.h"
}

namespace vipl_test {

/** All that is written there while `body` runs, 64 KiB at most. */
inline std::string stderr_of(const std::function<void()> &body)
{
    std::string text = standard_error_of([&] {
        vipl_error_output_begin(true);
        body();
    });
    vipl_error_output_begin(false);
    return text;
}

} // namespace vipl_test

#endif
