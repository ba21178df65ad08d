// SPDX-License-Identifier: MIT
//
// What begin_call() asks on Windows, of a thread that has called this_task().
#ifndef VIPL_TESTS_WINDOWS_RESTING_HPP
#define VIPL_TESTS_WINDOWS_RESTING_HPP

#include <string>

namespace windows_test {

/** Whether it sleeps in the library, for what has not come. */
bool is_asleep(const std::string &task);

} // namespace windows_test

#endif
