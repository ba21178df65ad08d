// SPDX-License-Identifier: MIT
#include "monitor.hpp"

#include <cerrno>
#include <chrono>
#include <poll.h>

#include <omniORB4/CORBA.h>

namespace omnivipl {

bool Monitor::start_locked()
{
    if (!has_waker_ && vipl_waker_open(&waker_) != 0) {
        return false;
    }
    has_waker_ = true;
    has_thread_ = vipl_thread_start(&thread_, run, this) == 0;
    return has_thread_;
}

void Monitor::watch()
{
    const std::lock_guard<std::mutex> guard(lock_);
    watched_++;
    if (!has_thread_ && !start_locked()) {
        omniORB::logs(1,
                      "giop:vipl: no thread or descriptor to watch connections; interleaved calls may wait");
    }
    change_.notify_one();
}

bool Monitor::stay()
{
    const std::lock_guard<std::mutex> guard(lock_);
    if (!stays_ && (has_thread_ || start_locked())) {
        stays_ = true;
        watched_++;
        change_.notify_one();
    }
    return stays_;
}

void Monitor::unwatch()
{
    const std::lock_guard<std::mutex> guard(lock_);
    if (--watched_ == 0 && waiting_) {
        vipl_waker_signal(&waker_);
    }
}

void Monitor::end()
{
    {
        const std::lock_guard<std::mutex> guard(lock_);
        ending_ = true;
        change_.notify_one();
        if (waiting_) {
            vipl_waker_signal(&waker_);
        }
    }
    if (has_thread_) {
        vipl_thread_join(&thread_);
    }
    if (has_waker_) {
        vipl_waker_close(&waker_);
    }
}

void Monitor::run(void *monitor)
{
    static_cast<Monitor *>(monitor)->wait_for_messages();
}

void Monitor::wait_for_messages()
{
    std::unique_lock<std::mutex> guard(lock_);
    while (!ending_) {
        if (watched_ == 0) {
            change_.wait(guard);
            continue;
        }
        waiting_ = true;
        guard.unlock();
        pollfd fd = {waker_.fd, POLLIN, 0};
        const int rc = vipl_stream_nic_wait(nic_, &fd, 1, -1, nullptr);
        guard.lock();
        waiting_ = false;
        if (rc == VIPL_POLL_OTHERS) {
            vipl_waker_reset(&waker_);
        } else if (rc == ENOMEM) { // descriptors or memory may be there again
            omniORB::logs(1, "giop:vipl: no descriptor or memory to wait on a NIC handle");
            change_.wait_for(guard, std::chrono::milliseconds(100));
        } else if (rc != 0 && rc != EINTR) {
            omniORB::logs(1, "giop:vipl: a NIC handle cannot be waited for");
            break;
        }
    }
}

} // namespace omnivipl
