// SPDX-License-Identifier: MIT
//
// Lays addresses out by hand, from offsets alone, the way programs of the time do.
#include "net_address.hpp"

#include <algorithm>
#include <cstring>

namespace vipl_test {

namespace {

constexpr size_t kHostAt = offsetof(VIP_NET_ADDRESS, HostAddress);
constexpr unsigned char kGuardByte = 0xA5;

} // namespace

NetAddress::NetAddress(size_t room, VIP_UINT16 host_len, VIP_UINT16 discriminator_len)
    : bytes_(kHostAt + room + kGuard, kGuardByte)
{
    get()->HostAddressLen = host_len;
    get()->DiscriminatorLen = discriminator_len;
}

NetAddress::NetAddress(const std::string &host, const std::string &discriminator)
    : NetAddress(host.size() + discriminator.size(), static_cast<VIP_UINT16>(host.size()),
                 static_cast<VIP_UINT16>(discriminator.size()))
{
    std::memcpy(bytes_.data() + kHostAt, host.data(), host.size());
    std::memcpy(bytes_.data() + kHostAt + host.size(), discriminator.data(), discriminator.size());
}

std::string NetAddress::host()
{
    const size_t length = std::min<size_t>(get()->HostAddressLen, bytes_.size() - kHostAt);
    return std::string(reinterpret_cast<const char *>(bytes_.data()) + kHostAt, length);
}

std::string NetAddress::discriminator()
{
    const size_t start = std::min<size_t>(kHostAt + get()->HostAddressLen, bytes_.size());
    const size_t length = std::min<size_t>(get()->DiscriminatorLen, bytes_.size() - start);
    return std::string(reinterpret_cast<const char *>(bytes_.data()) + start, length);
}

bool NetAddress::guard_intact() const
{
    return std::all_of(bytes_.end() - kGuard, bytes_.end(), [](unsigned char b) { return b == kGuardByte; });
}

} // namespace vipl_test
