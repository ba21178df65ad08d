// SPDX-License-Identifier: MIT
//
// How a process ends that is killed: Windows has no signals, so an exit code that no program uses
// says it. It includes the system's header, whose macro ERROR is in the way.
#ifndef VIPL_TESTS_WINDOWS_ENDED_HPP
#define VIPL_TESTS_WINDOWS_ENDED_HPP

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>
#include <winsock2.h>
#undef ERROR

namespace vipl_test {

constexpr unsigned kCodeOfKilled = 0x1009;

} // namespace vipl_test

#endif
