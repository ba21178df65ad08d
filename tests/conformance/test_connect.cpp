// SPDX-License-Identifier: MIT
//
// Client/server connections: VipConnectWait, VipConnectRequest, VipConnectAccept and
// VipConnectReject, from the plain case to every code they may return. Many threads are in
// test_connect_threads.cpp, VipDisconnect in test_disconnect.cpp.
#include <algorithm>
#include <thread>
#include <vector>

#include "connect_roles.hpp"

using namespace vipl_conformance;

TWO_ROLE_CASE_ONE_NIC("VipConnectRequest and VipConnectAccept connect two VIs",
                      "[VipConnectAccept][early]") = {
    [](Peer &peer) {
        const Vi vi(peer.nic());
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        REQUIRE_VIP(VipConnectAccept(incoming.connection, vi));
        EXPECT_EQ(VIP_STATE_CONNECTED, vi.state());
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        REQUIRE_VIP(request(vi, peer.client_address(), peer.server_address()));
        EXPECT_EQ(VIP_STATE_CONNECTED, vi.state());
        peer.sync();
    },
};

TWO_ROLE_CASE_EACH_LEVEL("VipConnectWait and VipConnectRequest report the other VI's attributes",
                         "[VipConnectWait][early]") = {
    [](Peer &peer) {
        VIP_VI_ATTRIBUTES own = vi_attributes(peer.level(), 4000);
        own.EnableRdmaWrite = VIP_TRUE;
        own.EnableRdmaRead = VIP_FALSE;
        const Vi vi(peer.nic(), own);
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        EXPECT_EQ(peer.level(), incoming.attributes.ReliabilityLevel);
        EXPECT_EQ(4000ul, incoming.attributes.MaxTransferSize);
        EXPECT_EQ(VIP_FALSE, incoming.attributes.EnableRdmaWrite);
        EXPECT(incoming.attributes.Ptag == nullptr);
        EXPECT(incoming.attributes.QoS == nullptr);
        REQUIRE_VIP(VipConnectAccept(incoming.connection, vi));
        peer.sync();
    },
    [](Peer &peer) {
        VIP_VI_ATTRIBUTES own = vi_attributes(peer.level(), 4000), seen{};
        own.EnableRdmaWrite = own.EnableRdmaRead = VIP_FALSE;
        const Vi vi(peer.nic(), own);
        NetAddress local = peer.client_address(), remote = peer.server_address();
        REQUIRE_VIP(VipConnectRequest(vi, local, remote, patience(), &seen));
        EXPECT_EQ(peer.level(), seen.ReliabilityLevel);
        EXPECT_EQ(4000ul, seen.MaxTransferSize);
        EXPECT_EQ(VIP_TRUE, seen.EnableRdmaWrite);
        EXPECT_EQ(VIP_FALSE, seen.EnableRdmaRead);
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectRequest waits for a listener that comes later", "[VipConnectRequest][early]") = {
    [](Peer &peer) {
        const Vi vi(peer.nic());
        peer.sync();
        expect_no_request(peer.nic(), peer.server_address("other"), kMoment); // the request comes meanwhile
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        REQUIRE_VIP(VipConnectAccept(incoming.connection, vi));
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        peer.sync();
        REQUIRE_VIP(request(vi, peer.client_address(), peer.server_address()));
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectRequest and VipConnectWait take infinite timeouts, of 32 bits too",
              "[VipConnectRequest][early]") = {
    [](Peer &peer) {
        for (const VIP_ULONG timeout : {VIP_INFINITE, static_cast<VIP_ULONG>(0xFFFFFFFFu)}) {
            const Vi vi(peer.nic());
            const Incoming incoming = wait_for_request(peer.nic(), peer.server_address(), timeout);
            REQUIRE_VIP(VipConnectAccept(incoming.connection, vi));
            peer.sync();
        }
    },
    [](Peer &peer) {
        for (const VIP_ULONG timeout : {VIP_INFINITE, static_cast<VIP_ULONG>(0xFFFFFFFFu)}) {
            const Vi vi(peer.nic());
            REQUIRE_VIP(request(vi, peer.client_address(), peer.server_address(), timeout));
            peer.sync();
        }
    },
};

TWO_ROLE_CASE("VipConnectRequest needs no place for the other VI's attributes",
              "[VipConnectRequest][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        NetAddress local = peer.client_address(), remote = peer.server_address();
        REQUIRE_VIP(VipConnectRequest(vi, local, remote, patience(), nullptr));
        peer.sync();
    },
};

TEST_CASE("VipConnectWait without a request is VIP_TIMEOUT and hands back NULL", "[VipConnectWait][early]")
{
    const Nic nic;
    const std::string name = unique_discriminator();
    expect_no_request(nic, nic.address(name), 0);
    const unsigned long long start = now_ms();
    expect_no_request(nic, nic.address(name), kMoment);
    EXPECT(now_ms() - start + 1 >= kMoment);
}

TEST_CASE("VipConnectWait without one of its pointers is VIP_INVALID_PARAMETER", "[VipConnectWait][early]")
{
    const Nic nic;
    NetAddress local = nic.address(unique_discriminator()), remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = &local;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectWait(nic, nullptr, 0, remote, &attributes, &connection));
    EXPECT(connection == nullptr);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectWait(nic, local, 0, nullptr, &attributes, &connection));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectWait(nic, local, 0, remote, nullptr, &connection));
}

TEST_CASE("VipConnectWait and VipConnectRequest of a discriminator above MaxDiscriminatorLen are "
          "VIP_INVALID_PARAMETER",
          "[VipConnectWait][early]")
{
    const Nic nic;
    const Vi vi(nic);
    NetAddress local = nic.address("short"),
               too_long = nic.address(std::string(nic.attributes().MaxDiscriminatorLen + 1, 'x'));
    NetAddress remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = &local;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectWait(nic, too_long, 0, remote, &attributes, &connection));
    EXPECT(connection == nullptr);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectRequest(vi, local, too_long, 0, &attributes));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectRequest(vi, too_long, local, 0, &attributes));
    EXPECT_EQ(VIP_STATE_IDLE, vi.state());
}

namespace {

/** Both roles use the discriminator that this makes of the case's own. */
using Discriminator = std::string (*)(Peer &);

template <Discriminator make>
void serve_discriminator(Peer &peer)
{
    const Vi vi(peer.nic());
    const Incoming incoming = wait_for_request(peer.nic(), peer.nic().address(make(peer)));
    REQUIRE_VIP(VipConnectAccept(incoming.connection, vi));
    peer.sync();
}

template <Discriminator make>
void request_discriminator(Peer &peer)
{
    const Vi vi(peer.nic());
    REQUIRE_VIP(request(vi, peer.client_address(), NetAddress(peer.host(Side::server), make(peer))));
    peer.sync();
}

std::string longest(Peer &peer)
{
    std::string text = peer.server_address().discriminator();
    text.resize(peer.nic().attributes().MaxDiscriminatorLen, 'x');
    return text;
}

std::string binary(Peer &peer)
{
    std::string text = peer.server_address().discriminator();
    return std::string("\0\xFF\0\n/", 5) + text + std::string(1, '\0');
}

} // namespace

TWO_ROLE_CASE("VipConnectWait takes a discriminator of MaxDiscriminatorLen bytes",
              "[VipConnectWait][early]") = {serve_discriminator<longest>, request_discriminator<longest>};

TWO_ROLE_CASE("VipConnectWait takes any bytes as a discriminator",
              "[VipConnectWait][early]") = {serve_discriminator<binary>, request_discriminator<binary>};

TWO_ROLE_CASE("VipConnectWait gets no request for a longer or shorter discriminator",
              "[VipConnectWait][early]") = {
    [](Peer &peer) {
        Incoming incoming =
            wait_for_request(peer.nic(), peer.server_address("ab")); // all four come meanwhile
        EXPECT_EQ(peer.client_address("the right one").discriminator(), incoming.from.discriminator());
        REQUIRE_VIP(VipConnectReject(incoming.connection));
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        const NetAddress local = peer.client_address();
        REQUIRE_RC(VIP_NO_MATCH, request(vi, local, peer.server_address("a"), answer_time()));
        REQUIRE_RC(VIP_NO_MATCH, request(vi, local, peer.server_address("abc"), answer_time()));
        REQUIRE_RC(VIP_NO_MATCH,
                   request(vi, local, peer.server_address(std::string("ab\0", 3)), answer_time()));
        REQUIRE_RC(VIP_REJECT, request(vi, peer.client_address("the right one"), peer.server_address("ab")));
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectWait gets the request where another NIC handle has waited before it",
              "[VipConnectWait][early]") = {
    [](Peer &peer) {
        const Nic other;
        expect_no_request(other, peer.server_address(), 0);
        peer.sync();
        REQUIRE_VIP(VipConnectReject(wait_for_request(peer.nic(), peer.server_address()).connection));
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        peer.sync();
        REQUIRE_RC(VIP_REJECT, request(vi, peer.client_address(), peer.server_address()));
        peer.sync();
    },
};

namespace {

/** A NIC handle that makes progress by itself, and has waited for the case's discriminator. */
class Idler {
public:
    explicit Idler(const NetAddress &address)
    {
        REQUIRE_VIP(VipErrorCallback(nic, nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) {}));
        expect_no_request(nic, address, 0);
    }
    Nic nic;
};

/** Wait for a request that is still there when it is accepted: another NIC handle may have been
 * faster. */
VIP_RETURN accept_one(const Nic &nic, const NetAddress &local, VIP_ULONG timeout)
{
    const Vi vi(nic);
    for (;;) {
        NetAddress to = local;
        Incoming incoming;
        const VIP_RETURN rc =
            VipConnectWait(nic, to, timeout, incoming.from, &incoming.attributes, &incoming.connection);
        const VIP_RETURN accepted = rc == VIP_SUCCESS ? VipConnectAccept(incoming.connection, vi) : rc;
        if (rc != VIP_SUCCESS || accepted != VIP_TIMEOUT) {
            return accepted;
        }
    }
}

/** The request comes while nobody waits. */
void let_it_come(Peer &peer)
{
    peer.sync();
    expect_no_request(peer.nic(), peer.server_address("other"), kMoment);
}

/** One of them has got the request, and is connected to the client: the others are not to be. */
void expect_no_other(Peer &peer, std::initializer_list<const Nic *> nics)
{
    peer.sync();
    for (const Nic *nic : nics) {
        REQUIRE_RC(VIP_TIMEOUT, accept_one(*nic, peer.server_address(), 0));
    }
    peer.sync();
}

void be_accepted(Peer &peer)
{
    const Vi vi(peer.nic());
    peer.sync();
    REQUIRE_VIP(request(vi, peer.client_address(), peer.server_address()));
    peer.sync();
    peer.sync();
}

} // namespace

TWO_ROLE_CASE("VipConnectWait gets the request where four NIC handles are idle that have waited before it",
              "[VipConnectWait][early]") = {
    [](Peer &peer) {
        const Idler a(peer.server_address()), b(peer.server_address()), c(peer.server_address()),
            d(peer.server_address());
        peer.sync();
        REQUIRE_VIP(accept_one(peer.nic(), peer.server_address(), patience()));
        expect_no_other(peer, {&a.nic, &b.nic, &c.nic, &d.nic});
    },
    be_accepted,
};

TWO_ROLE_CASE("VipConnectWait gets the request that another NIC handle has had and left alone",
              "[VipConnectWait][early]") = {
    [](Peer &peer) {
        const Idler first(peer.server_address()), second(peer.server_address());
        let_it_come(peer);
        REQUIRE_VIP(accept_one(peer.nic(), peer.server_address(), patience()));
        expect_no_other(peer, {&first.nic, &second.nic});
    },
    be_accepted,
};

TWO_ROLE_CASE("VipConnectWait gets the request where the NIC handle that had it first waits again",
              "[VipConnectWait][early]") = {
    [](Peer &peer) {
        const Idler first(peer.server_address()), second(peer.server_address());
        let_it_come(peer);
        REQUIRE_VIP(accept_one(first.nic, peer.server_address(), patience()));
        expect_no_other(peer, {&second.nic, &peer.nic()});
    },
    be_accepted,
};

TWO_ROLE_CASE("VipConnectWait with a timeout of 0 finds the request where no NIC handle waits",
              "[VipConnectWait][early]") = {
    [](Peer &peer) {
        const Idler idler(peer.server_address());
        peer.sync();
        VIP_RETURN rc = VIP_TIMEOUT;
        for (const auto end = now_ms() + patience(); rc == VIP_TIMEOUT && now_ms() < end;) {
            expect_no_request(idler.nic, peer.server_address("other"), 20);
            rc = accept_one(idler.nic, peer.server_address(), 0);
        }
        REQUIRE_VIP(rc);
        expect_no_other(peer, {&peer.nic()});
    },
    be_accepted,
};

TWO_ROLE_CASE("VipConnectRequest where NIC handles have waited, and do not answer, is VIP_TIMEOUT",
              "[VipConnectRequest][early]") = {
    [](Peer &peer) {
        const Idler first(peer.server_address()), second(peer.server_address());
        peer.sync();
        peer.sync(); // the request's time is up
        REQUIRE_RC(VIP_TIMEOUT, accept_one(first.nic, peer.server_address(), 0));
        REQUIRE_RC(VIP_TIMEOUT, accept_one(second.nic, peer.server_address(), 0));
        REQUIRE_RC(VIP_TIMEOUT, accept_one(peer.nic(), peer.server_address(), 0));
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        peer.sync();
        REQUIRE_RC(VIP_TIMEOUT, request(vi, peer.client_address(), peer.server_address(), answer_time()));
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectRequest after the NIC handles that have waited are closed is VIP_NO_MATCH",
              "[VipConnectRequest][early]") = {
    [](Peer &peer) {
        {
            const Idler first(peer.server_address()), second(peer.server_address());
        }
        peer.sync();
        peer.sync(); // the request's time is up
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        peer.sync();
        REQUIRE_RC(VIP_NO_MATCH, request(vi, peer.client_address(), peer.server_address(), answer_time()));
        peer.sync();
    },
};

TWO_PROCESS_CASE("VipConnectWait gets the request of a process whose own NIC handle has waited before",
                 "[VipConnectWait][early]") = {
    [](Peer &peer) {
        peer.sync();
        REQUIRE_VIP(accept_one(peer.nic(), peer.server_address(), patience()));
        expect_no_other(peer, {});
    },
    [](Peer &peer) {
        const Idler idler(peer.server_address());
        be_accepted(peer);
    },
};

namespace {

void on_one_host(const Peer &peer)
{
    if (!peer.one_address()) {
        throw NotApplicable("the sides are on two hosts: a request goes to one of them");
    }
}

} // namespace

TWO_PROCESS_CASE(
    "VipConnectWait gets the request of its own process where an idle NIC handle of another has it",
    "[VipConnectWait][early]") = {
    [](Peer &peer) {
        on_one_host(peer);
        const Idler idler(peer.server_address());
        peer.sync();
        expect_no_other(peer, {&idler.nic});
    },
    [](Peer &peer) {
        on_one_host(peer);
        const Nic own;
        const Vi vi(peer.nic());
        VIP_RETURN result = VIP_NOT_DONE;
        peer.sync();
        std::thread requester([&] { result = request(vi, peer.client_address(), peer.server_address()); });
        expect_no_request(own, peer.server_address("other"), kMoment); // the other process has it
        const VIP_RETURN accepted = accept_one(own, peer.server_address(), patience());
        requester.join();
        REQUIRE_VIP(accepted);
        REQUIRE_VIP(result);
        peer.sync();
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectWait of two NIC handles gets one each of two requests that come at once",
              "[VipConnectWait][early]") = {
    [](Peer &peer) {
        const Nic other;
        for (int round = 0; round < 20; ++round) {
            VIP_RETURN result = VIP_NOT_DONE;
            peer.sync();
            std::thread second([&] { result = accept_one(other, peer.server_address(), patience()); });
            const VIP_RETURN own = accept_one(peer.nic(), peer.server_address(), patience());
            second.join();
            REQUIRE_VIP(own);
            REQUIRE_VIP(result);
            peer.sync();
        }
    },
    [](Peer &peer) {
        for (int round = 0; round < 20; ++round) {
            const Vi one(peer.nic()), two(peer.nic());
            VIP_RETURN result = VIP_NOT_DONE;
            peer.sync();
            std::thread second([&] { result = request(two, peer.client_address(), peer.server_address()); });
            const VIP_RETURN own = request(one, peer.client_address(), peer.server_address());
            second.join();
            REQUIRE_VIP(own);
            REQUIRE_VIP(result);
            peer.sync(); // a requester that ends at once may be gone before an acceptance is confirmed
        }
    },
};

TWO_ROLE_CASE("VipConnectReject makes the request VIP_REJECT", "[VipConnectReject][early]") = {
    [](Peer &peer) {
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        REQUIRE_VIP(VipConnectReject(incoming.connection));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectReject(incoming.connection)); // the handle has ended
        const Vi vi(peer.nic());
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectAccept(incoming.connection, vi));
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        REQUIRE_RC(VIP_REJECT, request(vi, peer.client_address(), peer.server_address()));
        EXPECT_EQ(VIP_STATE_IDLE, vi.state());
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectRequest may be repeated after VIP_REJECT, receives still posted",
              "[VipConnectRequest][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        REQUIRE_VIP(VipConnectReject(wait_for_request(peer.nic(), peer.server_address()).connection));
        end.connect();
        end.send("after the rejection");
        sent(end.vi);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        const Work receive = end.receive(19);
        REQUIRE_RC(VIP_REJECT, request(end.vi, peer.client_address(), peer.server_address()));
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(end.vi, &done));
        end.connect();
        EXPECT(received(end.vi) == receive.desc);
        EXPECT_EQ(std::string("after the rejection"), receive.buffer.text());
        peer.sync();
    },
};

TEST_CASE("VipConnectRequest where nobody waits is VIP_NO_MATCH, not before the timeout",
          "[VipConnectRequest][early]")
{
    const Nic nic;
    const Vi vi(nic);
    const unsigned long long start = now_ms();
    REQUIRE_RC(VIP_NO_MATCH, request(vi, nic.address("x"), nic.address(unique_discriminator()), kMoment));
    EXPECT(now_ms() - start + 1 >= kMoment);
    EXPECT_EQ(VIP_STATE_IDLE, vi.state());
    REQUIRE_RC(VIP_NO_MATCH, request(vi, nic.address("x"), nic.address(unique_discriminator()), 0));
}

TWO_ROLE_CASE("VipConnectRequest may be repeated after VIP_NO_MATCH, receives still posted",
              "[VipConnectRequest][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        peer.sync();
        end.connect();
        end.send("second try");
        sent(end.vi);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        const Work receive = end.receive(10);
        REQUIRE_RC(VIP_NO_MATCH,
                   request(end.vi, peer.client_address(), peer.server_address(), answer_time()));
        peer.sync();
        end.connect();
        EXPECT(received(end.vi) == receive.desc);
        EXPECT_EQ(std::string("second try"), receive.buffer.text());
        peer.sync();
    },
};

TEST_CASE("VipConnectRequest to a host that is not there is VIP_NOT_REACHABLE", "[VipConnectRequest][early]")
{
    if (!device_is_loopback()) {
        throw NotApplicable("which hosts are there is known on loopback only");
    }
    const Nic nic;
    const Vi vi(nic);
    std::string host = nic.address("").host();
    host[host.size() - 1] = static_cast<char>(host[host.size() - 1] ^ 0x55);
    const NetAddress elsewhere(host, unique_discriminator());
    REQUIRE_RC(VIP_NOT_REACHABLE, request(vi, nic.address("x"), elsewhere));
    EXPECT_EQ(VIP_STATE_IDLE, vi.state());
}

namespace {

/** A request that the server takes and does not answer; one that comes before it listens finds
 * nobody. */
void request_in_vain(Peer &peer, VIP_VI_HANDLE vi)
{
    const unsigned long long end = now_ms() + patience();
    VIP_RETURN rc;
    do {
        rc = request(vi, peer.client_address(), peer.server_address(), short_while());
    } while (rc == VIP_NO_MATCH && now_ms() < end);
    REQUIRE_RC(VIP_TIMEOUT, rc);
}

} // namespace

TWO_ROLE_CASE("VipConnectRequest that a listener took and did not answer is VIP_TIMEOUT",
              "[VipConnectRequest][early]") = {
    [](Peer &peer) {
        const Vi vi(peer.nic());
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        peer.sync(); // the request has timed out
        REQUIRE_RC(VIP_TIMEOUT, VipConnectAccept(incoming.connection, vi));
        EXPECT_EQ(VIP_STATE_IDLE, vi.state());
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectAccept(incoming.connection, vi)); // VIP_TIMEOUT ended it
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        request_in_vain(peer, vi);
        EXPECT_EQ(VIP_STATE_IDLE, vi.state());
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectReject of a request that has timed out ends its handle",
              "[VipConnectReject][early]") = {
    [](Peer &peer) {
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        peer.sync();
        VipConnectReject(incoming.connection);
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectReject(incoming.connection));
        expect_no_request(peer.nic(), peer.server_address(), 0);
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        request_in_vain(peer, vi);
        peer.sync();
    },
};

TWO_PROCESS_CASE("VipConnectAccept of a requester that died is VIP_TIMEOUT", "[VipConnectAccept][early]") = {
    [](Peer &peer) {
        const Vi vi(peer.nic());
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        peer.sync();
        // The requester dies at once; its line to this process closes no later than that.
        try {
            peer.sync();
        } catch (const Failure &) {
        }
        const VIP_RETURN accepted = VipConnectAccept(incoming.connection, vi);
        if (accepted == VIP_SUCCESS) { // noticed later: then as a lost connection
            vi.await(VIP_STATE_ERROR);
        } else {
            EXPECT_EQ(VIP_TIMEOUT, accepted);
            EXPECT_EQ(VIP_STATE_IDLE, vi.state());
        }
    },
    [](Peer &peer) {
        static Peer *self;
        static Vi *vi;
        self = &peer;
        vi = new Vi(peer.nic());
        std::thread([] { request(*vi, self->client_address(), self->server_address()); }).detach();
        peer.sync();
        peer.die();
    },
};

TWO_ROLE_CASE("VipConnectAccept with another level is VIP_INVALID_RELIABILITY_LEVEL, the request stays",
              "[VipConnectAccept][early]") = {
    [](Peer &peer) {
        const Vi other(peer.nic(), vi_attributes(VIP_SERVICE_UNRELIABLE)), same(peer.nic());
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        REQUIRE_RC(VIP_INVALID_RELIABILITY_LEVEL, VipConnectAccept(incoming.connection, other));
        EXPECT_EQ(VIP_STATE_IDLE, other.state());
        REQUIRE_VIP(VipConnectAccept(incoming.connection, same));
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        REQUIRE_VIP(request(vi, peer.client_address(), peer.server_address()));
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectAccept with another transfer size is VIP_INVALID_MTU, the request may be rejected",
              "[VipConnectAccept][early]") = {
    [](Peer &peer) {
        const Vi larger(peer.nic(), vi_attributes(peer.level(), kTransferSize + 1));
        const Vi smaller(peer.nic(), vi_attributes(peer.level(), kTransferSize - 1));
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        REQUIRE_RC(VIP_INVALID_MTU, VipConnectAccept(incoming.connection, larger));
        REQUIRE_RC(VIP_INVALID_MTU, VipConnectAccept(incoming.connection, smaller));
        EXPECT_EQ(VIP_STATE_IDLE, larger.state());
        REQUIRE_VIP(VipConnectReject(incoming.connection));
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        REQUIRE_RC(VIP_REJECT, request(vi, peer.client_address(), peer.server_address()));
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectAccept with a VI that is not idle is VIP_INVALID_STATE, the request stays",
              "[VipConnectAccept][early]") = {
    [](Peer &peer) {
        Endpoint first(peer), second(peer);
        const Vi pending(peer.nic());
        NetAddress local = peer.server_address("p"), remote = peer.client_address("q");
        REQUIRE_VIP(VipConnectPeerRequest(pending, local, remote, patience()));
        first.connect();
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        REQUIRE_RC(VIP_INVALID_STATE, VipConnectAccept(incoming.connection, first.vi));
        REQUIRE_RC(VIP_INVALID_STATE, VipConnectAccept(incoming.connection, pending));
        EXPECT_EQ(VIP_STATE_CONNECTED, first.vi.state());
        REQUIRE_VIP(VipConnectAccept(incoming.connection, second.vi));
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint first(peer), second(peer);
        first.connect();
        second.connect();
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectAccept with another NIC handle's VI is VIP_INVALID_PARAMETER, the request stays",
              "[VipConnectAccept][early]") = {
    [](Peer &peer) {
        const Nic other;
        const Vi foreign(other), own(peer.nic());
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectAccept(incoming.connection, foreign));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectAccept(incoming.connection, nullptr));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectAccept(incoming.connection, peer.nic()));
        REQUIRE_VIP(VipConnectAccept(incoming.connection, own));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectAccept(incoming.connection, own)); // accepted: ended
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectReject(incoming.connection));
        EXPECT_EQ(VIP_STATE_CONNECTED, own.state());
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        REQUIRE_VIP(request(vi, peer.client_address(), peer.server_address()));
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectWait gets requests that came between two calls", "[VipConnectWait][early]") = {
    [](Peer &peer) {
        Endpoint first(peer);
        first.connect();
        peer.sync();
        expect_no_request(peer.nic(), peer.server_address("other"), kMoment); // three requests come meanwhile
        const Vi one(peer.nic()), two(peer.nic()), three(peer.nic());
        for (const Vi *vi : {&one, &two, &three}) {
            const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
            REQUIRE_VIP(VipConnectAccept(incoming.connection, *vi));
        }
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint first(peer);
        first.connect();
        const Vi one(peer.nic()), two(peer.nic()), three(peer.nic());
        VIP_RETURN results[3] = {};
        peer.sync();
        std::vector<std::thread> requesters;
        int i = 0;
        for (const Vi *vi : {&one, &two, &three}) {
            VIP_RETURN *result = &results[i++];
            requesters.emplace_back([&peer, vi, result] {
                *result = request(*vi, peer.client_address(), peer.server_address());
            });
        }
        for (std::thread &requester : requesters) {
            requester.join();
        }
        for (const VIP_RETURN result : results) {
            REQUIRE_VIP(result);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectRequest on a connected VI is VIP_INVALID_STATE and the connection stays",
              "[VipConnectRequest][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work receive = end.receive(5);
        end.connect();
        peer.sync();
        EXPECT(received(end.vi) == receive.desc);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        REQUIRE_RC(VIP_INVALID_STATE, request(end.vi, peer.client_address(), peer.server_address()));
        end.send("still");
        sent(end.vi);
        peer.sync();
    },
};

TWO_ROLE_CASE("VipConnectRequest makes the VI pending while it waits", "[VipConnectRequest][functional]") = {
    [](Peer &peer) {
        const Vi vi(peer.nic());
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        peer.sync(); // the client looks at its state
        peer.sync();
        REQUIRE_VIP(VipConnectAccept(incoming.connection, vi));
        peer.sync();
    },
    [](Peer &peer) {
        const Vi vi(peer.nic());
        VIP_RETURN result = VIP_NOT_DONE;
        std::thread requester([&] { result = request(vi, peer.client_address(), peer.server_address()); });
        std::string problem;
        try {
            peer.sync();
            EXPECT_EQ(VIP_STATE_CONNECT_PENDING, vi.state());
            REQUIRE_RC(VIP_INVALID_STATE, VipDestroyVi(vi));
            peer.sync();
        } catch (const std::exception &error) {
            problem = error.what();
            VipDisconnect(vi);
        }
        requester.join();
        if (!problem.empty()) {
            throw Failure(problem);
        }
        REQUIRE_VIP(result);
        peer.sync();
    },
};
