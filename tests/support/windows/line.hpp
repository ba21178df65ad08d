// SPDX-License-Identifier: MIT
//
// Lines, for what starts processes.
#ifndef VIPL_TESTS_WINDOWS_LINE_HPP
#define VIPL_TESTS_WINDOWS_LINE_HPP

namespace vipl_test {

/** Start the system's sockets, once. */
void start_sockets();

} // namespace vipl_test

#endif
