// SPDX-License-Identifier: MIT
//
// A timer that sends a signal to the thread that made it, again and again.
#ifndef VIPL_STRESS_TIMERS_HPP
#define VIPL_STRESS_TIMERS_HPP

#include <csignal>
#include <ctime>

#include <sys/syscall.h>
#include <unistd.h>

#include "support/check.hpp"

namespace stress {

/** SIGUSR2 comes to this thread with that period, for the life of the object. Whoever uses it has a
 * handler. */
class Pest {
public:
    explicit Pest(long period_ns)
    {
        sigevent event = {};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = SIGUSR2;
#ifdef sigev_notify_thread_id
        event.sigev_notify_thread_id = static_cast<pid_t>(syscall(SYS_gettid));
#else // glibc has Linux's field without Linux's name for it
        event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
#endif
        EXPECT(timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0);
        const itimerspec when = {{0, period_ns}, {0, period_ns}};
        EXPECT(timer_settime(timer_, 0, &when, nullptr) == 0);
    }
    ~Pest()
    {
        timer_delete(timer_);
    }
    Pest(const Pest &) = delete;
    Pest &operator=(const Pest &) = delete;

private:
    timer_t timer_{};
};

} // namespace stress

#endif
