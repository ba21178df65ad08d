// SPDX-License-Identifier: MIT
//
// What the system's objects of the library are called, in an ordinary build and in one with
// VIPL_OS_PORTABLE.
#ifndef VIPL_TESTS_PORTABLE_HPP
#define VIPL_TESTS_PORTABLE_HPP

#include <cstring>

#include <vipl/posix.h>

namespace vipl_test {

/** Whether the library uses little more than POSIX. */
inline bool library_is_portable()
{
    return std::strstr(VipxBuildOptions(), "waker=pipe") != nullptr;
}

/** Whether memory that one process shows can be mapped by others: Linux. */
inline bool library_shows_memory()
{
    return std::strstr(VipxBuildOptions(), "waker=eventfd") != nullptr;
}

/** What /proc/self/maps calls each shared segment of the library. */
inline const char *segment_name()
{
    return library_is_portable() ? "/dev/shm/vipl-" : "/memfd:vipl-";
}

} // namespace vipl_test

#endif
