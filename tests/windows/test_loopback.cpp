// SPDX-License-Identifier: MIT
//
// The device loopback in one process on Windows: two threads connect and send each other messages,
// one of them waits for what the other one sends, and the library's thread calls a handler.
#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <vipl/vipl.h>

namespace {

constexpr VIP_ULONG kLong = 60000; // milliseconds: what is waited for comes before

struct alignas(VIP_DESCRIPTOR_ALIGNMENT) Message {
    VIP_DESCRIPTOR work;
    char text[64];
};

/** One end, with a NIC handle of its own. */
struct End {
    End()
    {
        REQUIRE(VipOpenNic(const_cast<char *>("loopback"), &nic) == VIP_SUCCESS);
        REQUIRE(VipQueryNic(nic, &limits) == VIP_SUCCESS);
        REQUIRE(VipRegisterMem(nic, messages.data(), messages.size() * sizeof(Message), nullptr, &memory) ==
                VIP_SUCCESS);
        VIP_VI_ATTRIBUTES ours{};
        ours.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
        ours.MaxTransferSize = sizeof(Message::text);
        REQUIRE(VipCreateVi(nic, &ours, nullptr, nullptr, &vi) == VIP_SUCCESS);
    }
    ~End() { VipCloseNic(nic); }
    End(const End &) = delete;
    End &operator=(const End &) = delete;

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

VIP_RETURN accept_on(const End &end, const std::string &name)
{
    std::vector<char> here = end.address(name), peer(256);
    VIP_VI_ATTRIBUTES theirs{};
    VIP_CONN_HANDLE request;
    const VIP_RETURN rc = VipConnectWait(end.nic, reinterpret_cast<VIP_NET_ADDRESS *>(here.data()), kLong,
                                         reinterpret_cast<VIP_NET_ADDRESS *>(peer.data()), &theirs, &request);
    return rc == VIP_SUCCESS ? VipConnectAccept(request, end.vi) : rc;
}

VIP_RETURN request_from(const End &end, const std::string &name)
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

void connect(const End &server, const End &client)
{
    VIP_RETURN accepted = VIP_TIMEOUT;
    std::thread thread([&] { accepted = accept_on(server, "windows"); });
    const VIP_RETURN requested = request_from(client, "windows");
    thread.join();
    REQUIRE(accepted == VIP_SUCCESS);
    REQUIRE(requested == VIP_SUCCESS);
}

std::atomic<int> g_called{0};

void VI_CALL on_receive(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *)
{
    ++g_called;
}

} // namespace

TEST_CASE("messages go between two NIC handles, to a thread that waits for them", "[windows]")
{
    End server, client;
    REQUIRE(VipPostRecv(server.vi, server.fill(0, ""), server.memory) == VIP_SUCCESS);
    connect(server, client);
    for (int i = 0; i < 200; ++i) {
        VIP_DESCRIPTOR *done = nullptr;
        VIP_RETURN sent = VIP_TIMEOUT;
        const std::string text = "message " + std::to_string(i);
        std::thread thread([&] {
            VIP_DESCRIPTOR *out = nullptr;
            sent = VipPostSend(client.vi, client.fill(1, text), client.memory);
            sent = sent == VIP_SUCCESS ? VipSendWait(client.vi, kLong, &out) : sent;
        });
        REQUIRE(VipRecvWait(server.vi, kLong, &done) == VIP_SUCCESS);
        thread.join();
        REQUIRE(sent == VIP_SUCCESS);
        CHECK(done == &server.messages[0].work);
        CHECK((done->CS.Status & VIP_STATUS_ERROR_MASK) == 0);
        CHECK(std::string(server.messages[0].text) == text);
        REQUIRE(VipPostRecv(server.vi, server.fill(0, ""), server.memory) == VIP_SUCCESS);
    }
    VIP_DESCRIPTOR *flushed = nullptr;
    REQUIRE(VipDisconnect(client.vi) == VIP_SUCCESS);
    REQUIRE(VipRecvWait(server.vi, kLong, &flushed) != VIP_TIMEOUT); // it learns that the peer has gone
}

TEST_CASE("a handler is called by the library's thread", "[windows]")
{
    End server, client;
    g_called = 0;
    REQUIRE(VipPostRecv(server.vi, server.fill(0, ""), server.memory) == VIP_SUCCESS);
    REQUIRE(VipRecvNotify(server.vi, nullptr, on_receive) == VIP_SUCCESS);
    connect(server, client);
    REQUIRE(VipPostSend(client.vi, client.fill(1, "notified"), client.memory) == VIP_SUCCESS);
    for (int i = 0; i < 60000 && g_called == 0; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(g_called == 1);
    CHECK(std::string(server.messages[0].text) == "notified");
}

TEST_CASE("nobody listens, and a wait ends at its time", "[windows]")
{
    End end;
    std::vector<char> there = end.address("nobody");
    auto *address = reinterpret_cast<VIP_NET_ADDRESS *>(there.data());
    VIP_VI_ATTRIBUTES theirs{};
    VIP_CONN_HANDLE request;
    std::vector<char> peer(256);
    CHECK(VipConnectRequest(end.vi, address, address, 1000, &theirs) == VIP_NO_MATCH);
    CHECK(VipConnectWait(end.nic, address, 20, reinterpret_cast<VIP_NET_ADDRESS *>(peer.data()), &theirs,
                         &request) == VIP_TIMEOUT);
}
