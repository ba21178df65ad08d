// SPDX-License-Identifier: MIT
#include "tasks.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace vipl_test {

std::string this_task()
{
    return task_of(static_cast<pid_t>(syscall(SYS_gettid)));
}

void await_rest(const std::string &task)
{
    const unsigned long long end = now_ms() + patience();
    for (int looks = 0; looks < 100; ++looks) {
        const char state = state_of(task);
        looks = state == 'S' || state == '?' ? looks : 0;
        EXPECT(now_ms() < end);
        give_way();
    }
}

} // namespace vipl_test
