// SPDX-License-Identifier: MIT
//
// The device loopback in one process on Windows: two threads connect and send each other messages,
// one of them waits for what the other one sends, and the library's thread calls a handler.
#include "ends.hpp"

#include <atomic>

using namespace windows_test;

namespace {

std::atomic<int> g_called{0};

void VI_CALL on_receive(VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *)
{
    ++g_called;
}

} // namespace

TEST_CASE("messages go between two NIC handles, to a thread that waits for them", "[windows]")
{
    Endpoint server, client;
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
    Endpoint server, client;
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
    Endpoint end;
    std::vector<char> there = end.address("nobody");
    auto *address = reinterpret_cast<VIP_NET_ADDRESS *>(there.data());
    VIP_VI_ATTRIBUTES theirs{};
    VIP_CONN_HANDLE request;
    std::vector<char> peer(256);
    CHECK(VipConnectRequest(end.vi, address, address, 1000, &theirs) == VIP_NO_MATCH);
    CHECK(VipConnectWait(end.nic, address, 20, reinterpret_cast<VIP_NET_ADDRESS *>(peer.data()), &theirs,
                         &request) == VIP_TIMEOUT);
}
