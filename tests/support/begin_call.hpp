// SPDX-License-Identifier: MIT
//
// A call by another thread that is under way: its thread sleeps in it. /proc says whether it does
// (tasks.cpp). Windows has nothing like that, so tests of the static library there look at how the
// library sleeps (windows/resting.cpp).
#ifndef VIPL_TESTS_BEGIN_CALL_HPP
#define VIPL_TESTS_BEGIN_CALL_HPP

#include <functional>
#include <future>
#include <memory>
#include <string>

namespace vipl_test {

/** The calling thread, for await_rest(). */
std::string this_task();

/** Until that thread sleeps for long, not for a lock's turn, or has ended. */
void await_rest(const std::string &task);

/** A call by another thread, which rests in it when this returns. The end of the caller waits for
 * that thread. */
inline void begin_call(std::future<void> &caller, const std::function<void()> &call)
{
    auto task = std::make_shared<std::promise<std::string>>();
    caller = std::async(std::launch::async, [=] {
        task->set_value(this_task());
        call();
    });
    await_rest(task->get_future().get());
}

} // namespace vipl_test

#endif
