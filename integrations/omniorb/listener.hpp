// SPDX-License-Identifier: MIT
//
// The thread that accepts connections for an endpoint.
//
// A VI is accepted on the NIC handle that its request has come to. So that the connection has this
// NIC handle for itself, the thread waits on a new one for each, which listens only while it waits.
// The NIC handle that further connections share listens all the time, so that a request always
// finds a listener. Several NIC handles can listen for one name on the device loopback alone.
#ifndef OMNIVIPL_LISTENER_HPP
#define OMNIVIPL_LISTENER_HPP

#include <functional>
#include <future>
#include <memory>
#include <string>

#include "address.hpp"
#include "vipl_nic.hpp"

namespace omnivipl {

/** A connected stream, its NIC handle, and where the peer is. */
struct Accepted {
    std::shared_ptr<Nic> nic;
    vipl_stream *stream;
    Location peer;
};

class Listener {
public:
    /** Calls `accepted` on its thread. With `own_nics`, a connection has a NIC handle of its own
     * where the device allows it. */
    Listener(std::shared_ptr<Nic> nic, const std::string &name, bool own_nics,
             std::function<void(const Accepted &)> accepted);
    ~Listener();
    Listener(const Listener &) = delete;
    Listener &operator=(const Listener &) = delete;

    /** Requests find the listener once this has returned. False: there is no thread. */
    bool start();

private:
    static void run(void *listener);
    void listen();
    VIP_RETURN wait(const Nic &nic, VIP_ULONG ms, NetAddress &peer, VIP_CONN_HANDLE &request) const;
    bool accept(const std::shared_ptr<Nic> &nic, VIP_CONN_HANDLE request, const NetAddress &peer) const;
    void prepare_own();

    const std::shared_ptr<Nic> shared_;
    // The next connection's own, if it is to have one. The thread's, once it runs.
    std::shared_ptr<Nic> own_;
    const std::string name_;
    const bool own_nics_;
    const std::function<void(const Accepted &)> accepted_;
    vipl_thread thread_{};
    std::promise<void> looked_; // the thread has looked for requests once
    bool started_ = false;      // the owner's
};

} // namespace omnivipl

#endif
