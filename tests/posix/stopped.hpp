// SPDX-License-Identifier: MIT
//
// Processes that are stopped while a case goes on: the server, for instance.
#ifndef VIPL_CONFORMANCE_STOPPED_HPP
#define VIPL_CONFORMANCE_STOPPED_HPP

#include <atomic>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "family.hpp"

namespace vipl_conformance {

/** A process that is stopped for as long as the object lives; and not for longer, if this process
 * is killed. */
class Stopped {
public:
    explicit Stopped(pid_t process) : process_(process)
    {
        EXPECT(process > 0 && pipe2(fds_, O_CLOEXEC) == 0);
        guard_ = fork();
        if (guard_ == 0) {
            close(fds_[1]);
            Gate::readable(fds_[0], 2 * patience());
            ::kill(process, SIGCONT);
            _exit(0);
        }
        ::kill(process_, SIGSTOP);
        await_state(std::to_string(process_), 'T');
    }
    ~Stopped()
    {
        go_on();
        close(fds_[0]);
        close(fds_[1]);
    }
    Stopped(const Stopped &) = delete;
    Stopped &operator=(const Stopped &) = delete;

    void go_on()
    {
        if (guard_ > 0) {
            ::kill(process_, SIGCONT);
            ::kill(guard_, SIGKILL);
            waitpid(guard_, nullptr, 0);
            guard_ = 0;
        }
    }

    /** Make a call, which waits for the process, unlike a fork. It goes on once the call sleeps. */
    VIP_RETURN go_on_during(const std::function<VIP_RETURN()> &call)
    {
        const std::string caller = this_task();
        std::atomic<bool> begun{false};
        std::string problem;
        std::thread later([&] {
            while (!begun) {
                give_way();
            }
            try {
                await_state(caller, 'S');
            } catch (const Failure &failure) {
                problem = failure.what();
            }
            go_on();
        });
        begun = true;
        const VIP_RETURN rc = call();
        later.join();
        EXPECT_EQ("", problem);
        return rc;
    }

private:
    pid_t process_, guard_ = 0;
    int fds_[2] = {-1, -1};
};

} // namespace vipl_conformance

#endif
