// SPDX-License-Identifier: MIT
//
// What is written to the standard error output, by a pipe: in a file that takes its place the
// library would see one of the program's.
#ifndef VIPL_TESTS_STDERR_OF_HPP
#define VIPL_TESTS_STDERR_OF_HPP

#include <cstdio>
#include <functional>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "internal.hpp"

namespace vipl_test {

/** All that is written there while `body` runs, 64 KiB at most. */
inline std::string stderr_of(const std::function<void()> &body)
{
    int ends[2];
    std::fflush(stderr);
    const int before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    vipl_error_output_begin(true);
    body();
    std::fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    vipl_error_output_begin(false);
    std::string text;
    char bytes[4096];
    for (ssize_t n; (n = read(ends[0], bytes, sizeof bytes)) > 0;) {
        text.append(bytes, static_cast<std::size_t>(n));
    }
    close(ends[0]);
    return text;
}

} // namespace vipl_test

#endif
