// SPDX-License-Identifier: MIT
//
// POSIX extensions, VipxConnectRequest(): a request that ends where nobody listens, and one that a
// listener gets whether or not its program waits at that moment. The requests have no time limit
// where their end is not to be that of the time.
#include <vipl/posix.h>

#include <unistd.h>

#include <chrono>
#include <future>
#include <string>

#include "conformance/connect_roles.hpp"
#include "stopped.hpp"
#include "support/tasks.hpp"

using namespace vipl_conformance;

namespace {

VIP_RETURN ask_at_once(const Vi &vi, NetAddress local, NetAddress remote, VIP_ULONG timeout = VIP_INFINITE)
{
    VIP_VI_ATTRIBUTES attributes{};
    return VipxConnectRequest(vi, local, remote, VIPX_AT_ONCE, timeout, &attributes);
}

/** A NIC handle that has waited for a name, and does not now. */
struct Listener {
    explicit Listener(const std::string &name) : address(nic.address(name))
    {
        expect_no_request(nic, address, 0);
    }

    const Nic nic;
    const NetAddress address;
};

} // namespace

TEST_CASE("a request at once where nobody has waited is VIP_NO_MATCH before its time is up",
          "[VipxConnectRequest][posix]")
{
    const Nic nic;
    const Vi vi(nic);
    for (int i = 0; i < 3; ++i) {
        REQUIRE_RC(VIP_NO_MATCH, ask_at_once(vi, nic.address("x"), nic.address(unique_discriminator())));
        EXPECT_EQ(VIP_STATE_IDLE, vi.state());
    }
}

TEST_CASE("a request at once to a name of which another one is the beginning is VIP_NO_MATCH",
          "[VipxConnectRequest][posix]")
{
    const std::string name = unique_discriminator();
    const Listener listener(name);
    const Nic nic;
    const Vi vi(nic);
    std::future<VIP_RETURN> answer = std::async(
        std::launch::async, [&] { return ask_at_once(vi, nic.address("x"), nic.address(name + "a")); });
    // The listener's program answers: over tcp the two names have a port in common now and then.
    do {
        expect_no_request(listener.nic, listener.address, 1);
    } while (answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready);
    REQUIRE_RC(VIP_NO_MATCH, answer.get());
}

TEST_CASE("a request at once to a listener whose program does not wait now is VIP_TIMEOUT at the time limit",
          "[VipxConnectRequest][posix]")
{
    const std::string name = unique_discriminator();
    const Listener listener(name);
    const Nic nic;
    const Vi vi(nic);
    const unsigned long long start = now_ms();
    REQUIRE_RC(VIP_TIMEOUT, ask_at_once(vi, nic.address("x"), nic.address(name), answer_time()));
    EXPECT(now_ms() - start + 1 >= answer_time());
}

TWO_ROLE_CASE("a request at once is taken by the listener's next VipConnectWait",
              "[VipxConnectRequest][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        expect_no_request(peer.nic(), peer.server_address(), 0);
        peer.sync();
        const Work receive = end.receive(7);
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        REQUIRE_VIP(VipConnectAccept(incoming.connection, end.vi));
        EXPECT(received(end.vi) == receive.desc);
        EXPECT_EQ(std::string("at once"), receive.buffer.text());
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        peer.sync();
        REQUIRE_VIP(ask_at_once(end.vi, peer.client_address(), peer.server_address()));
        EXPECT_EQ(VIP_STATE_CONNECTED, end.vi.state());
        end.send("at once");
        sent(end.vi);
        peer.sync();
    },
};

TWO_ROLE_CASE("a request at once that is rejected is VIP_REJECT", "[VipxConnectRequest][posix]") = {
    [](Peer &peer) {
        expect_no_request(peer.nic(), peer.server_address(), 0);
        peer.sync();
        REQUIRE_VIP(VipConnectReject(wait_for_request(peer.nic(), peer.server_address()).connection));
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        peer.sync();
        REQUIRE_RC(VIP_REJECT, ask_at_once(vi, peer.client_address(), peer.server_address()));
        peer.sync();
    },
};

TWO_ROLE_CASE("a request at once may be repeated after VIP_NO_MATCH, receives still posted",
              "[VipxConnectRequest][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        peer.sync(); // the client has asked
        expect_no_request(peer.nic(), peer.server_address(), 0);
        peer.sync();
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        REQUIRE_VIP(VipConnectAccept(incoming.connection, end.vi));
        end.send("second try");
        sent(end.vi);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        const Work receive = end.receive(10);
        REQUIRE_RC(VIP_NO_MATCH, ask_at_once(end.vi, peer.client_address(), peer.server_address()));
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(end.vi, &done));
        peer.sync();
        peer.sync();
        REQUIRE_VIP(ask_at_once(end.vi, peer.client_address(), peer.server_address()));
        EXPECT(received(end.vi) == receive.desc);
        EXPECT_EQ(std::string("second try"), receive.buffer.text());
        peer.sync();
    },
};

TEST_CASE("a request at once whose only listener is killed is VIP_NO_MATCH then",
          "[VipxConnectRequest][posix][private][fork]")
{
    const std::string name = unique_discriminator();
    const Gate listens, took;
    Fork child([&] {
        const Nic nic;
        expect_no_request(nic, nic.address(name), 0);
        listens.open();
        wait_for_request(nic, nic.address(name));
        took.open();
        for (;;) {
            pause();
        }
    });
    const Nic nic;
    const Vi vi(nic);
    listens.pass();
    std::future<VIP_RETURN> answer =
        std::async(std::launch::async, [&] { return ask_at_once(vi, nic.address("x"), nic.address(name)); });
    took.pass();
    child.kill();
    REQUIRE_RC(VIP_NO_MATCH, answer.get());
    EXPECT_EQ(VIP_STATE_IDLE, vi.state());
}

TEST_CASE("a NIC handle with VIPX_BRIEF_LISTENER does not listen after VipConnectWait",
          "[VipxConnectRequest][VipxOpenNic][posix]")
{
    const std::string name = unique_discriminator();
    const Nic brief(device_under_test(), Nic::Flags{VIPX_BRIEF_LISTENER});
    expect_no_request(brief, brief.address(name), 0);
    const Nic nic;
    const Vi vi(nic);
    REQUIRE_RC(VIP_NO_MATCH, ask_at_once(vi, nic.address("x"), nic.address(name), patience()));
    const Listener listener(name);
    REQUIRE_RC(VIP_TIMEOUT, ask_at_once(vi, nic.address("x"), nic.address(name), answer_time()));
}

TWO_ROLE_CASE("a request that a NIC handle with VIPX_BRIEF_LISTENER has taken is accepted afterwards",
              "[VipxConnectRequest][VipxOpenNic][posix]") = {
    [](Peer &peer) {
        const Nic brief(device_under_test(), Nic::Flags{VIPX_BRIEF_LISTENER});
        const Vi vi(brief);
        const Incoming incoming = wait_for_request(brief, peer.server_address());
        peer.sync();
        peer.sync(); // the client has found that nobody listens
        REQUIRE_VIP(VipConnectAccept(incoming.connection, vi));
        EXPECT_EQ(VIP_STATE_CONNECTED, vi.state());
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        std::future<VIP_RETURN> answer = std::async(
            std::launch::async, [&] { return request(vi, peer.client_address(), peer.server_address()); });
        peer.sync();
        const Vi second(peer.nic());
        REQUIRE_RC(VIP_NO_MATCH,
                   ask_at_once(second, peer.client_address(), peer.server_address(), patience()));
        peer.sync();
        REQUIRE_VIP(answer.get());
        peer.sync();
    },
};

TEST_CASE("VipxConnectRequest without a flag is VipConnectRequest", "[VipxConnectRequest][posix]")
{
    const Nic nic;
    const Vi vi(nic);
    const unsigned long long start = now_ms();
    REQUIRE_RC(VIP_NO_MATCH, VipxConnectRequest(vi, nic.address("x"), nic.address(unique_discriminator()), 0,
                                                kMoment, nullptr));
    EXPECT(now_ms() - start + 1 >= kMoment);
}

TEST_CASE("VipxConnectRequest refuses other flags, and what is missing", "[VipxConnectRequest][posix]")
{
    const Nic nic;
    const Vi vi(nic);
    NetAddress local = nic.address("x"), remote = nic.address(unique_discriminator());
    for (const VIP_ULONG flags : {VIP_ULONG{2}, VIPX_AT_ONCE | 2, ~VIP_ULONG{0}}) {
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipxConnectRequest(vi, local, remote, flags, 0, nullptr));
    }
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxConnectRequest(vi, nullptr, remote, VIPX_AT_ONCE, 0, nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxConnectRequest(vi, local, nullptr, VIPX_AT_ONCE, 0, nullptr));
    EXPECT_EQ(VIP_STATE_IDLE, vi.state());
}
