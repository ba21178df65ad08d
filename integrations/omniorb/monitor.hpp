// SPDX-License-Identifier: MIT
//
// The thread that waits on a NIC handle while the ORB wants to know of messages that no thread of
// its own waits for, or its threads do not wait on the NIC handle themselves. It takes what comes,
// and the streams' watches tell the collection and the connection.
#ifndef OMNIVIPL_MONITOR_HPP
#define OMNIVIPL_MONITOR_HPP

#include <condition_variable>
#include <mutex>

#include "engine.hpp"

namespace omnivipl {

class Monitor {
public:
    explicit Monitor(vipl_stream_nic *nic) : nic_(nic) {}
    Monitor(const Monitor &) = delete;
    Monitor &operator=(const Monitor &) = delete;
    /** A connection of the NIC handle is to be watched. Starts the thread if there is none. */
    void watch();
    /** One is not to be watched any more; with the last one, the thread leaves the NIC handle. */
    void unwatch();
    /** The NIC handle has connections whose threads do not wait on it themselves: from now on the
     * thread stays there. False: there is no thread or descriptor for it. */
    bool stay();
    /** Ends the thread. No connection is watched any more. */
    void end();

private:
    bool start_locked();
    static void run(void *monitor);
    void wait_for_messages();

    vipl_stream_nic *const nic_;
    std::mutex lock_;
    std::condition_variable change_; // of watched_ or ending_, with lock_
    bool has_thread_ = false;        // guarded by lock_
    vipl_thread thread_{};           // constant once has_thread_
    unsigned watched_ = 0;           // guarded by lock_
    bool stays_ = false;             // guarded by lock_
    bool ending_ = false;            // guarded by lock_
    bool waiting_ = false;           // in the wait that waker_ ends; guarded by lock_
    bool has_waker_ = false;         // guarded by lock_
    vipl_waker waker_{};             // constant once has_waker_
};

} // namespace omnivipl

#endif
