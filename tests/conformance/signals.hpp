// SPDX-License-Identifier: MIT
//
// Signals that come while a call blocks.
#ifndef VIPL_CONFORMANCE_SIGNALS_HPP
#define VIPL_CONFORMANCE_SIGNALS_HPP

#include <condition_variable>
#include <csignal>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include <pthread.h>

#include "support/role_case.hpp"

namespace vipl_conformance {

using namespace vipl_test;

/** A handler for SIGUSR1, for the life of the object, which counts its calls. */
class Handler {
public:
    explicit Handler(int flags)
    {
        calls = 0;
        struct sigaction action = {};
        action.sa_handler = [](int) { calls = calls + 1; };
        action.sa_flags = flags;
        sigemptyset(&action.sa_mask);
        sigaction(SIGUSR1, &action, &before_);
    }
    ~Handler() { sigaction(SIGUSR1, &before_, nullptr); }
    Handler(const Handler &) = delete;
    Handler &operator=(const Handler &) = delete;

    static inline volatile std::sig_atomic_t calls = 0;

private:
    struct sigaction before_ = {};
};

/**
 * Run the call in a thread and signal that thread until the call returns. A signal that comes
 * before the call blocks has no effect, so it is sent again and again.
 */
inline VIP_RETURN interrupted(const std::function<VIP_RETURN()> &call)
{
    std::mutex mutex;
    std::condition_variable changed;
    bool over = false;
    VIP_RETURN returned = VIP_SUCCESS;
    std::string problem;
    std::thread caller([&] {
        VIP_RETURN rc = VIP_SUCCESS;
        std::string thrown;
        try {
            rc = call();
        } catch (const std::exception &error) {
            thrown = error.what();
        }
        const std::lock_guard<std::mutex> lock(mutex);
        returned = rc;
        problem = thrown;
        over = true;
        changed.notify_all();
    });
    std::unique_lock<std::mutex> lock(mutex);
    while (!over) {
        pthread_kill(caller.native_handle(), SIGUSR1);
        changed.wait_until(lock, std::chrono::system_clock::now() + std::chrono::milliseconds(5));
    }
    lock.unlock();
    caller.join();
    if (!problem.empty()) {
        throw Failure(problem);
    }
    return returned;
}

} // namespace vipl_conformance

#endif
