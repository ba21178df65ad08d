// SPDX-License-Identifier: MIT
//
// A thread that a debugger holds: Linux.
#ifndef VIPL_TESTS_HELD_THREAD_HPP
#define VIPL_TESTS_HELD_THREAD_HPP

#include <sys/ptrace.h>
#include <sys/wait.h>

#include "check.hpp"

namespace vipl_test {

/** One thread of a process that stands still for the life of the object, while the others run. From
 * one thread only. */
class HeldThread {
public:
    explicit HeldThread(pid_t thread) : thread_(thread)
    {
        int status = 0;
        EXPECT(ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) == 0);
        EXPECT(ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0);
        EXPECT(waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status));
    }
    ~HeldThread() { ptrace(PTRACE_DETACH, thread_, nullptr, nullptr); }
    HeldThread(const HeldThread &) = delete;
    HeldThread &operator=(const HeldThread &) = delete;

private:
    pid_t thread_;
};

} // namespace vipl_test

#endif
