// SPDX-License-Identifier: MIT
//
// What the system says of processes and threads: whether they sleep, are stopped, or have ended. A
// task is what /proc calls it: a process's number, or "self/task/NUMBER" for a thread of this
// process.
#ifndef VIPL_TESTS_TASKS_HPP
#define VIPL_TESTS_TASKS_HPP

#include <fstream>
#include <string>

#include <sys/types.h>

#include "begin_call.hpp"
#include "check.hpp"
#include "environment.hpp"

namespace vipl_test {

/** The letter that /proc shows: S it sleeps, T it is stopped, Z it has ended. '?': there is none of
 * that name. */
inline char state_of(const std::string &task)
{
    std::ifstream file("/proc/" + task + "/stat");
    std::string text;
    std::getline(file, text);
    const size_t at = text.rfind(')');
    return at != std::string::npos && at + 2 < text.size() ? text[at + 2] : '?';
}

inline void await_state(const std::string &task, char state)
{
    const unsigned long long end = now_ms() + patience();
    while (state_of(task) != state) {
        EXPECT(now_ms() < end);
        give_way();
    }
}

/** Whether a process is there and has not ended. */
inline bool lives(pid_t process)
{
    const char state = state_of(std::to_string(process));
    return state != '?' && state != 'Z' && state != 'X';
}

/** A thread of this process. */
inline std::string task_of(pid_t thread)
{
    return "self/task/" + std::to_string(thread);
}

} // namespace vipl_test

#endif
