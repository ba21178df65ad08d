// SPDX-License-Identifier: MIT
//
// NIC handles. A thread that waits for a message is woken without another thread in between where
// no other thread waits on the same NIC handle. So a connection has a NIC handle of its own, up to
// a number of them; the connections beyond that share one. A thread that waits on a NIC handle
// takes descriptors, so on a shared one the monitor waits for all connections but one, and wakes
// their threads.
#ifndef OMNIVIPL_VIPL_NIC_HPP
#define OMNIVIPL_VIPL_NIC_HPP

#include <atomic>
#include <memory>
#include <string>

#include "engine.hpp"
#include "monitor.hpp"

namespace omnivipl {

/** An open device. Threads: any. */
class Nic {
public:
    /** Opens a device; null if that fails, which the log of the ORB says. */
    static std::shared_ptr<Nic> open(const std::string &device) { return open_with(device, 0, true); }
    /** The same, of a NIC handle that listens only while a call waits for a request. */
    static std::shared_ptr<Nic> open_brief(const std::string &device)
    {
        return open_with(device, VIPX_BRIEF_LISTENER, false);
    }
    /** For a connection of this process to another one: a new NIC handle, or the shared one. */
    static std::shared_ptr<Nic> for_client(const std::string &device);
    /** Whether a further connection may have a NIC handle of its own. */
    static bool may_have_own();

    ~Nic();
    Nic(const Nic &) = delete;
    Nic &operator=(const Nic &) = delete;

    vipl_stream_nic *get() const { return nic_; }
    VIP_NIC_HANDLE handle() const { return vipl_stream_nic_handle(nic_); }
    const std::string &device() const { return device_; }
    /** The NIC address, in bytes. */
    const std::string &address() const { return address_; }
    Monitor &monitor() { return monitor_; }
    /** Whether several connections may have it. */
    bool is_shared() const { return shared_; }
    /** Whether a connection's threads may wait on the NIC handle themselves: at most one has that
     * at a time, and gives it back by end_direct(). */
    bool begin_direct() { return !has_direct_.exchange(true); }
    void end_direct() { has_direct_ = false; }
    /** Whether this process opened it, and not one that forked this process. */
    bool is_own() const { return generation_ == vipl_fork_generation(); }

private:
    Nic(vipl_stream_nic *nic, const std::string &device, bool several);
    static std::shared_ptr<Nic> open_with(const std::string &device, VIP_ULONG flags, bool several);

    // Constant, but has_direct_.
    vipl_stream_nic *nic_;
    const std::string device_;
    std::string address_;
    const uint32_t generation_;
    const bool shared_;
    std::atomic<bool> has_direct_{false}; // by begin_direct()
    Monitor monitor_;                     // ends first
};

/** The kind of a device: "loopback", "tcp", "rnic". */
std::string kind_of(const std::string &device);
/** The device of a kind that this process uses; that of the option viplDevice, if it is one. */
std::string device_of(const std::string &kind);
/** The device of an endpoint that names none: the option viplDevice. */
const std::string &default_device();
void set_default_device(const std::string &device);

/** A VIP_NET_ADDRESS with room for its bytes. */
struct NetAddress {
    NetAddress()
        : NetAddress(std::string(VIPL_MAX_HOST_ADDRESS, '\0'), std::string(VIPL_MAX_DISCRIMINATOR, '\0'))
    {
    }
    NetAddress(const std::string &host, const std::string &name);
    std::string host() const;
    std::string name() const;
    union {
        VIP_NET_ADDRESS net;
        unsigned char bytes[sizeof(VIP_NET_ADDRESS) + VIPL_MAX_HOST_ADDRESS + VIPL_MAX_DISCRIMINATOR];
    };
};

} // namespace omnivipl

#endif
