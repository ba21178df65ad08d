// SPDX-License-Identifier: MIT
//
// Two ends in one process on Windows, over the device loopback unless another one is named.
#ifndef VIPL_TEST_WINDOWS_ENDS_HPP
#define VIPL_TEST_WINDOWS_ENDS_HPP

#include <catch2/catch.hpp>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <vipl/posix.h>

namespace windows_test {

inline constexpr VIP_ULONG kLong = 60000; // milliseconds: what is waited for comes before

struct alignas(VIP_DESCRIPTOR_ALIGNMENT) Message {
    VIP_DESCRIPTOR work;
    char text[64];
};

/** One end, with a NIC handle of its own. */
struct Endpoint {
    explicit Endpoint(std::string device = "loopback", VIP_ULONG flags = 0)
    {
        REQUIRE(VipxOpenNic(device.data(), flags, &nic) == VIP_SUCCESS);
        REQUIRE(VipQueryNic(nic, &limits) == VIP_SUCCESS);
        REQUIRE(VipRegisterMem(nic, messages.data(), messages.size() * sizeof(Message), nullptr, &memory) ==
                VIP_SUCCESS);
        VIP_VI_ATTRIBUTES ours{};
        ours.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
        ours.MaxTransferSize = sizeof(Message::text);
        REQUIRE(VipCreateVi(nic, &ours, nullptr, nullptr, &vi) == VIP_SUCCESS);
    }
    ~Endpoint() { VipCloseNic(nic); }
    Endpoint(const Endpoint &) = delete;
    Endpoint &operator=(const Endpoint &) = delete;

    /** An address: the host, and a name on it. */
    std::vector<char> address(const std::string &name) const
    {
        std::vector<char> bytes(256);
        auto *to = reinterpret_cast<VIP_NET_ADDRESS *>(bytes.data());
        to->HostAddressLen = limits.NicAddressLen;
        to->DiscriminatorLen = static_cast<VIP_UINT16>(name.size());
        std::memcpy(to->HostAddress, limits.LocalNicAddress, limits.NicAddressLen);
        std::memcpy(to->HostAddress + limits.NicAddressLen, name.data(), name.size());
        return bytes;
    }
    VIP_DESCRIPTOR *fill(size_t which, const std::string &text)
    {
        Message &message = messages[which];
        message.work = {};
        std::memset(message.text, 0, sizeof message.text);
        std::memcpy(message.text, text.data(), text.size());
        message.work.CS.SegCount = 1;
        message.work.CS.Length = message.work.DS[0].Local.Length = sizeof message.text;
        message.work.DS[0].Local.Data.Address = message.text;
        message.work.DS[0].Local.Handle = memory;
        return &message.work;
    }

    VIP_NIC_HANDLE nic = nullptr;
    VIP_NIC_ATTRIBUTES limits{};
    VIP_MEM_HANDLE memory{};
    VIP_VI_HANDLE vi = nullptr;
    std::vector<Message> messages = std::vector<Message>(8);
};

inline VIP_RETURN accept_on(const Endpoint &end, const std::string &name)
{
    std::vector<char> here = end.address(name), peer(256);
    VIP_VI_ATTRIBUTES theirs{};
    VIP_CONN_HANDLE request;
    const VIP_RETURN rc = VipConnectWait(end.nic, reinterpret_cast<VIP_NET_ADDRESS *>(here.data()), kLong,
                                         reinterpret_cast<VIP_NET_ADDRESS *>(peer.data()), &theirs, &request);
    return rc == VIP_SUCCESS ? VipConnectAccept(request, end.vi) : rc;
}

inline VIP_RETURN request_from(const Endpoint &end, const std::string &name)
{
    std::vector<char> there = end.address(name);
    auto *address = reinterpret_cast<VIP_NET_ADDRESS *>(there.data());
    VIP_VI_ATTRIBUTES theirs{};
    VIP_RETURN rc;
    for (int i = 0;
         i < 1000 && (rc = VipConnectRequest(end.vi, address, address, kLong, &theirs)) == VIP_NO_MATCH;
         ++i) {
        std::this_thread::yield(); // the other thread does not listen yet
    }
    return rc;
}

inline void connect(const Endpoint &server, const Endpoint &client)
{
    VIP_RETURN accepted = VIP_TIMEOUT;
    std::thread thread([&] { accepted = accept_on(server, "windows"); });
    const VIP_RETURN requested = request_from(client, "windows");
    thread.join();
    REQUIRE(accepted == VIP_SUCCESS);
    REQUIRE(requested == VIP_SUCCESS);
}

} // namespace windows_test

#endif
