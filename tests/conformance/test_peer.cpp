// SPDX-License-Identifier: MIT
//
// Symmetric connections: both programs request and neither listens. Order does not matter, two
// requests make one connection, and every code that the three functions may return.
#include <memory>
#include <vector>

#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

/** Request: the server's address is local to the server and remote to the client. */
void peer_request(Peer &peer, VIP_VI_HANDLE vi, VIP_ULONG timeout = patience())
{
    NetAddress server = peer.server_address(), client = peer.client_address();
    NetAddress &local = peer.is_server() ? server : client, &remote = peer.is_server() ? client : server;
    REQUIRE_VIP(VipConnectPeerRequest(vi, local, remote, timeout));
}

/** One message each way shows that the two VIs are connected to each other. */
void exchange(Endpoint &end)
{
    const Span out = end.memory.text("symmetric");
    const Work work = end.send(out);
    EXPECT(sent(end.vi) == work.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, received(end.vi));
}

void connect_and_exchange(Peer &peer)
{
    Endpoint end(peer);
    const Work in = end.receive(9);
    peer_request(peer, end.vi);
    VIP_VI_ATTRIBUTES attributes{};
    REQUIRE_VIP(VipConnectPeerWait(end.vi, &attributes));
    EXPECT_EQ(VIP_STATE_CONNECTED, end.vi.state());
    EXPECT_EQ(peer.level(), attributes.ReliabilityLevel);
    EXPECT_EQ(kTransferSize, attributes.MaxTransferSize);
    EXPECT(attributes.Ptag == nullptr);
    exchange(end);
    EXPECT_EQ(std::string("symmetric"), in.buffer.text());
    peer.sync();
}

/** A role that gets the same bad answer on both sides, and an idle VI. */
template <VIP_RETURN code, class Spoil>
void disagree(Peer &peer, Spoil spoil)
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes(peer.level());
    if (peer.is_server()) {
        spoil(attributes);
    }
    const Vi vi(peer.nic(), attributes);
    peer_request(peer, vi);
    REQUIRE_RC(code, VipConnectPeerWait(vi, nullptr));
    EXPECT_EQ(VIP_STATE_IDLE, vi.state());
    REQUIRE_RC(VIP_INVALID_STATE, VipConnectPeerDone(vi, nullptr));
    peer.sync();
}

} // namespace

TWO_ROLE_CASE_EACH_LEVEL("VipConnectPeerRequest and VipConnectPeerWait connect two VIs",
                         "[VipConnectPeerWait][functional]") = {connect_and_exchange, connect_and_exchange};

TWO_ROLE_CASE_ONE_NIC("VipConnectPeerRequest of both sides at once makes exactly one connection, every time",
                      "[VipConnectPeerRequest][functional]") = {
    [](Peer &peer) {
        for (int i = 0; i < 30; ++i) {
            connect_and_exchange(peer);
        }
    },
    [](Peer &peer) {
        for (int i = 0; i < 30; ++i) {
            connect_and_exchange(peer);
        }
    },
};

namespace {

void first_to_ask(Peer &peer)
{
    Endpoint end(peer);
    end.receive(9);
    peer_request(peer, end.vi);
    REQUIRE_RC(VIP_NOT_DONE, VipConnectPeerDone(end.vi, nullptr));
    EXPECT_EQ(VIP_STATE_CONNECT_PENDING, end.vi.state());
    peer.sync();
    REQUIRE_VIP(VipConnectPeerWait(end.vi, nullptr));
    exchange(end);
    peer.sync();
}

void second_to_ask(Peer &peer)
{
    Endpoint end(peer);
    end.receive(9);
    peer.sync();
    peer_request(peer, end.vi);
    REQUIRE_VIP(VipConnectPeerWait(end.vi, nullptr));
    exchange(end);
    peer.sync();
}

} // namespace

TWO_ROLE_CASE("VipConnectPeerRequest may come first from the one side",
              "[VipConnectPeerRequest][functional]") = {first_to_ask, second_to_ask};

TWO_ROLE_CASE("VipConnectPeerRequest may come first from the other side",
              "[VipConnectPeerRequest][functional]") = {second_to_ask, first_to_ask};

TWO_ROLE_CASE("VipConnectPeerDone is VIP_NOT_DONE while pending, then VIP_SUCCESS once",
              "[VipConnectPeerDone][functional]") = {
    [](Peer &peer) {
        const Vi vi(peer.nic());
        VIP_VI_ATTRIBUTES attributes{};
        peer_request(peer, vi);
        REQUIRE_RC(VIP_NOT_DONE, VipConnectPeerDone(vi, &attributes));
        peer.sync();
        VIP_RETURN rc = VIP_NOT_DONE;
        for (const unsigned long long end = now_ms() + patience(); rc == VIP_NOT_DONE && now_ms() < end;) {
            rc = VipConnectPeerDone(vi, &attributes);
        }
        REQUIRE_VIP(rc);
        EXPECT_EQ(VIP_STATE_CONNECTED, vi.state());
        EXPECT_EQ(kTransferSize, attributes.MaxTransferSize);
        REQUIRE_RC(VIP_INVALID_STATE, VipConnectPeerDone(vi, &attributes));
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        peer.sync();
        peer_request(peer, vi);
        REQUIRE_VIP(VipConnectPeerWait(vi, nullptr));
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectPeerRequest of VIs of other levels is VIP_INVALID_RELIABILITY_LEVEL on both sides",
              "[VipConnectPeerWait][functional]") = {
    [](Peer &peer) {
        disagree<VIP_INVALID_RELIABILITY_LEVEL>(
            peer, [](VIP_VI_ATTRIBUTES &a) { a.ReliabilityLevel = VIP_SERVICE_UNRELIABLE; });
    },
    [](Peer &peer) { disagree<VIP_INVALID_RELIABILITY_LEVEL>(peer, [](VIP_VI_ATTRIBUTES &) {}); },
};

TWO_ROLE_CASE("VipConnectPeerRequest of VIs of other transfer sizes is VIP_INVALID_MTU on both sides",
              "[VipConnectPeerWait][functional]") = {
    [](Peer &peer) {
        disagree<VIP_INVALID_MTU>(peer, [](VIP_VI_ATTRIBUTES &a) { a.MaxTransferSize = 100; });
    },
    [](Peer &peer) { disagree<VIP_INVALID_MTU>(peer, [](VIP_VI_ATTRIBUTES &) {}); },
};

TEST_CASE("VipConnectPeerWait where nobody asks is VIP_NO_MATCH at the timeout",
          "[VipConnectPeerWait][functional]")
{
    const Nic nic;
    const Vi vi(nic);
    NetAddress local = nic.address(unique_discriminator()), remote = nic.address(unique_discriminator());
    const unsigned long long start = now_ms();
    REQUIRE_VIP(VipConnectPeerRequest(vi, local, remote, kMoment));
    REQUIRE_RC(VIP_NO_MATCH, VipConnectPeerWait(vi, nullptr));
    EXPECT(now_ms() - start + 1 >= kMoment);
    EXPECT_EQ(VIP_STATE_IDLE, vi.state());
}

TEST_CASE("VipConnectPeerDone where nobody asks is VIP_NO_MATCH after the timeout",
          "[VipConnectPeerDone][functional]")
{
    const Nic nic;
    const Vi vi(nic);
    NetAddress local = nic.address(unique_discriminator()), remote = nic.address(unique_discriminator());
    REQUIRE_VIP(VipConnectPeerRequest(vi, local, remote, kMoment));
    VIP_RETURN rc = VIP_NOT_DONE;
    for (const unsigned long long end = now_ms() + patience(); rc == VIP_NOT_DONE && now_ms() < end;) {
        rc = VipConnectPeerDone(vi, nullptr);
    }
    REQUIRE_RC(VIP_NO_MATCH, rc);
    EXPECT_EQ(VIP_STATE_IDLE, vi.state());
}

TWO_ROLE_CASE("VipConnectPeerRequest matches only a peer that names it in return",
              "[VipConnectPeerRequest][functional]") = {
    [](Peer &peer) { // A asks for B
        const Vi vi(peer.nic());
        NetAddress local = peer.server_address("A"), remote = peer.client_address("B");
        REQUIRE_VIP(VipConnectPeerRequest(vi, local, remote, short_while()));
        peer.sync();
        const VIP_RETURN rc = VipConnectPeerWait(vi, nullptr);
        EXPECT(rc == VIP_TIMEOUT || rc == VIP_NO_MATCH);
        EXPECT_EQ(VIP_STATE_IDLE, vi.state());
        peer.sync();
    },
    [](Peer &peer) { // B asks for C
        const Vi vi(peer.nic());
        NetAddress local = peer.client_address("B"), remote = peer.server_address("C");
        REQUIRE_VIP(VipConnectPeerRequest(vi, local, remote, short_while()));
        peer.sync();
        const VIP_RETURN rc = VipConnectPeerWait(vi, nullptr);
        EXPECT(rc == VIP_TIMEOUT || rc == VIP_NO_MATCH);
        peer.sync();
    },
};

TEST_CASE("VipConnectPeerRequest to a host that is not there is VIP_NOT_REACHABLE",
          "[VipConnectPeerRequest][functional]")
{
    if (!device_is_loopback()) {
        throw NotApplicable("which hosts are there is known on loopback only");
    }
    const Nic nic;
    const Vi vi(nic);
    std::string host = nic.address("").host();
    host[host.size() - 1] = static_cast<char>(host[host.size() - 1] ^ 0x55);
    NetAddress local = nic.address("x"), elsewhere(host, "y");
    VIP_RETURN rc = VipConnectPeerRequest(vi, local, elsewhere, patience());
    if (rc == VIP_SUCCESS) {
        rc = VipConnectPeerWait(vi, nullptr);
    }
    REQUIRE_RC(VIP_NOT_REACHABLE, rc);
    EXPECT_EQ(VIP_STATE_IDLE, vi.state());
}

TWO_ROLE_CASE("VipConnectPeerRequest may be repeated after VIP_NO_MATCH, receives still posted",
              "[VipConnectPeerRequest][functional]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work in = end.receive(9);
        peer_request(peer, end.vi, answer_time());
        REQUIRE_RC(VIP_NO_MATCH, VipConnectPeerWait(end.vi, nullptr));
        peer.sync();
        peer_request(peer, end.vi);
        REQUIRE_VIP(VipConnectPeerWait(end.vi, nullptr));
        exchange(end);
        EXPECT_EQ(std::string("symmetric"), in.buffer.text());
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.receive(9);
        peer.sync();
        peer_request(peer, end.vi);
        REQUIRE_VIP(VipConnectPeerWait(end.vi, nullptr));
        exchange(end);
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectPeerRequest of many VIs with one pair of names pairs them all",
              "[VipConnectPeerRequest][functional]") = {
    [](Peer &peer) {
        std::vector<std::unique_ptr<Vi>> vis;
        for (int i = 0; i < 20; ++i) {
            vis.push_back(std::make_unique<Vi>(peer.nic()));
            peer_request(peer, *vis.back());
        }
        for (const auto &vi : vis) {
            REQUIRE_VIP(VipConnectPeerWait(*vi, nullptr));
        }
        peer.sync();
    },
    [](Peer &peer) {
        std::vector<std::unique_ptr<Vi>> vis;
        for (int i = 0; i < 20; ++i) {
            vis.push_back(std::make_unique<Vi>(peer.nic()));
            peer_request(peer, *vis.back());
        }
        for (const auto &vi : vis) {
            REQUIRE_VIP(VipConnectPeerWait(*vi, nullptr));
        }
        peer.sync();
    },
};

TEST_CASE("VipConnectPeerRequest without an address or with a malformed one is VIP_INVALID_PARAMETER",
          "[VipConnectPeerRequest][functional]")
{
    const Nic nic;
    const Vi vi(nic);
    NetAddress good = nic.address("x");
    NetAddress too_long = nic.address(std::string(nic.attributes().MaxDiscriminatorLen + 1, 'x'));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, nullptr, good, 0));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, good, nullptr, 0));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, good, too_long, 0));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectPeerRequest(vi, too_long, good, 0));
    EXPECT_EQ(VIP_STATE_IDLE, vi.state());
}

TWO_PROCESS_CASE("VipConnectPeerWait outlives a peer that asked and died",
                 "[VipConnectPeerWait][functional]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        peer.sync(); // the child has asked for this side
        try {
            peer.sync(); // ends when the child does
        } catch (const Failure &) {
        }
        peer_request(peer, end.vi, short_while());
        const VIP_RETURN rc = VipConnectPeerWait(end.vi, nullptr);
        if (rc == VIP_SUCCESS) { // noticed later: then as a lost connection
            end.vi.await(VIP_STATE_ERROR);
        } else {
            EXPECT(rc == VIP_TIMEOUT || rc == VIP_NO_MATCH);
            EXPECT_EQ(VIP_STATE_IDLE, end.vi.state());
        }
    },
    [](Peer &peer) {
        Endpoint end(peer);
        peer_request(peer, end.vi);
        peer.sync();
        peer.die();
    },
};
