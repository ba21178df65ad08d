// SPDX-License-Identifier: MIT
//
// Another descriptor in the place of the standard error output: POSIX.
#ifndef VIPL_TESTS_IN_PLACE_OF_STDERR_HPP
#define VIPL_TESTS_IN_PLACE_OF_STDERR_HPP

#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

namespace vipl_test {

/** A descriptor's file is the standard error output, too, while the object lives. */
class InPlaceOfStderr {
public:
    explicit InPlaceOfStderr(int fd) : before_(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3))
    {
        std::fflush(stderr);
        dup2(fd, STDERR_FILENO);
    }
    ~InPlaceOfStderr()
    {
        std::fflush(stderr);
        dup2(before_, STDERR_FILENO);
        close(before_);
    }
    InPlaceOfStderr(const InPlaceOfStderr &) = delete;
    InPlaceOfStderr &operator=(const InPlaceOfStderr &) = delete;

private:
    int before_;
};

} // namespace vipl_test

#endif
