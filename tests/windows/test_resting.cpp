// SPDX-License-Identifier: MIT
//
// What the tests see of a thread that sleeps in the library.
#include <catch2/catch.hpp>

#include <atomic>
#include <future>
#include <thread>

#include "resting.hpp"
#include "support/begin_call.hpp"
#include "support/os_hooks.hpp"

extern "C" {
#include "os/os_atomic.h"
}

using namespace vipl_test;
using namespace windows_test;

namespace {

/** A thread that computes until it is let go, and then sleeps. */
class Sleeper {
public:
    explicit Sleeper(const std::function<void()> &sleep)
        : thread_(std::async(std::launch::async,
                             [this, sleep] {
                                 name_.set_value(this_task());
                                 while (!go_) {
                                     std::this_thread::yield();
                                 }
                                 sleep();
                             })),
          name(name_.get_future().get())
    {
    }
    void go() { go_ = true; }
    void await_end() { thread_.get(); }

private:
    std::promise<std::string> name_;
    std::atomic<bool> go_{false};
    std::future<void> thread_;

public:
    const std::string name;
};

} // namespace

TEST_CASE("a thread rests in a sleep until what it sleeps for has come, whether or not it has run since",
          "[windows]")
{
    std::uint32_t word = 0;
    vipl_waker waker{};
    std::function<void()> sleep, come, wake = [] {};
    REQUIRE(vipl_waker_open(&waker) == 0);
    SECTION("a word")
    {
        sleep = [&] {
            while (vipl_load_acquire(&word) == 0) { // pairs with the store below
                vipl_futex_wait(&word, 0);
            }
        };
        come = [&] { vipl_store_release(&word, 1); };
        wake = [&] { vipl_futex_wake_all(&word); };
    }
    SECTION("a descriptor")
    {
        sleep = [&] { vipl_poll(&waker.fd, 1, -1, nullptr); };
        come = [&] { vipl_waker_signal(&waker); };
    }
    Sleeper sleeper(sleep);
    CHECK_FALSE(is_asleep(sleeper.name));
    sleeper.go();
    await_rest(sleeper.name);
    CHECK(is_asleep(sleeper.name));
    come();
    CHECK_FALSE(is_asleep(sleeper.name));
    wake();
    sleeper.await_end();
    CHECK_FALSE(is_asleep(sleeper.name));
    await_rest(sleeper.name); // it has ended
    vipl_waker_close(&waker);
}
