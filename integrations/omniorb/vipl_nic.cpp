// SPDX-License-Identifier: MIT
#include "vipl_nic.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/resource.h>

#include <omniORB4/CORBA.h>

namespace omnivipl {

namespace {

// Connections of this process that have a NIC handle of their own. Such a connection takes some 11
// descriptors, and 5 of a peer whose NIC handle is shared. A process has 1,024 descriptors if the
// system's administrator has not changed that.
constexpr int MOST_OWN = 48;
constexpr rlim_t DESCRIPTORS_PER_OWN = 64;
// A thread polls before it sleeps, as long as that pays and the setting VIPL_SPIN_US allows.
constexpr VIP_ULONG FLAGS = VIPX_INLINE | VIPX_SPIN;
std::atomic<int> open_count{0};

std::mutex shared_lock;
std::map<std::string, std::weak_ptr<Nic>> shared; // by device; guarded by shared_lock

std::string &default_device_text()
{
    static std::string text = "loopback";
    return text;
}

} // namespace

Nic::Nic(vipl_stream_nic *nic, const std::string &device, bool several)
    : nic_(nic), device_(device), generation_(vipl_fork_generation()), shared_(several), monitor_(nic)
{
    uint8_t bytes[VIPL_MAX_HOST_ADDRESS];
    const unsigned length = vipl_stream_nic_address(nic, bytes);
    address_.assign(reinterpret_cast<char *>(bytes), length);
    open_count++;
}

Nic::~Nic()
{
    open_count--;
    monitor_.end();
    vipl_stream_nic_release(nic_);
}

std::shared_ptr<Nic> Nic::open_with(const std::string &device, VIP_ULONG flags, bool several)
{
    vipl_stream_nic *nic;
    VIP_RETURN reason;
    if (vipl_stream_nic_open(device.c_str(), FLAGS | flags, &nic, &reason) != 0) {
        if (omniORB::trace(1)) {
            omniORB::logger log;
            log << "giop:vipl: the device " << device.c_str()
                << " does not open: " << VipxExplainError(reason) << "\n";
        }
        return nullptr;
    }
    return std::shared_ptr<Nic>(new Nic(nic, device, several));
}

bool Nic::may_have_own()
{
    rlimit limit{};
    const bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0;
    return open_count < MOST_OWN &&
           (!known || static_cast<rlim_t>(open_count.load()) < limit.rlim_cur / DESCRIPTORS_PER_OWN);
}

std::shared_ptr<Nic> Nic::for_client(const std::string &device)
{
    if (may_have_own()) {
        return open_with(device, 0, false);
    }
    const std::lock_guard<std::mutex> guard(shared_lock);
    std::weak_ptr<Nic> &entry = shared[device];
    std::shared_ptr<Nic> nic = entry.lock();
    if (!nic || !nic->is_own()) {
        nic = open(device);
        entry = nic;
    }
    return nic;
}

std::string kind_of(const std::string &device)
{
    return device.substr(0, device.find(':'));
}

const std::string &default_device()
{
    return default_device_text();
}

void set_default_device(const std::string &device)
{
    default_device_text() = device;
}

std::string device_of(const std::string &kind)
{
    return kind_of(default_device()) == kind ? default_device() : kind;
}

NetAddress::NetAddress(const std::string &host, const std::string &name) : bytes()
{
    const size_t host_length = std::min<size_t>(host.size(), VIPL_MAX_HOST_ADDRESS);
    const size_t name_length = std::min<size_t>(name.size(), VIPL_MAX_DISCRIMINATOR);
    net.HostAddressLen = static_cast<VIP_UINT16>(host_length);
    net.DiscriminatorLen = static_cast<VIP_UINT16>(name_length);
    unsigned char *at = bytes + offsetof(VIP_NET_ADDRESS, HostAddress);
    std::copy_n(host.begin(), host_length, at);
    std::copy_n(name.begin(), name_length, at + host_length);
}

std::string NetAddress::host() const
{
    const auto *at = reinterpret_cast<const char *>(bytes) + offsetof(VIP_NET_ADDRESS, HostAddress);
    return std::string(at, net.HostAddressLen);
}

std::string NetAddress::name() const
{
    const auto *at = reinterpret_cast<const char *>(bytes) + offsetof(VIP_NET_ADDRESS, HostAddress);
    return std::string(at + net.HostAddressLen, net.DiscriminatorLen);
}

} // namespace omnivipl
