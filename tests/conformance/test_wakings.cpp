// SPDX-License-Identifier: MIT
//
// Who is woken, and when: every thread that has something to take, though another watches the
// device for it; all waiters of a queue that is flushed; and each wait when its time is up, neither
// sooner nor twice as late.
#include <algorithm>
#include <atomic>
#include <thread>

#include "support/error_log.hpp"
#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

/** Far longer than a wake-up takes; a waiter that is forgotten sleeps to the end of it. */
VIP_ULONG whole_time()
{
    return std::max<VIP_ULONG>(patience(), 8000);
}

VIP_VI_ATTRIBUTES without_rdma()
{
    return {VIP_SERVICE_RELIABLE_DELIVERY, kTransferSize, nullptr, nullptr, VIP_FALSE, VIP_FALSE};
}

/** One thread in VipRecvWait(), and how it came out. */
class Waiter {
public:
    explicit Waiter(VIP_VI_HANDLE vi)
        : thread_([this, vi] {
              const unsigned long long start = now_ms();
              VIP_DESCRIPTOR *done = nullptr;
              rc = VipRecvWait(vi, whole_time(), &done);
              took = now_ms() - start;
          })
    {
    }
    ~Waiter()
    {
        if (thread_.joinable()) {
            thread_.join();
        }
    }
    Waiter(const Waiter &) = delete;
    Waiter &operator=(const Waiter &) = delete;
    void finish(VIP_RETURN expected)
    {
        thread_.join();
        EXPECT_EQ(expected, rc);
    }
    /** And in time. */
    void expect(VIP_RETURN expected)
    {
        finish(expected);
        EXPECT(took < whole_time() / 2);
    }

private:
    VIP_RETURN rc = VIP_NOT_DONE;
    unsigned long long took = 0;
    std::thread thread_;
};

constexpr unsigned kTurns = 4;

/** How long the shortest of some waits lasts. The first that is in time will do: a busy machine is
 * no fault. */
template <class Wait>
void expect_in_time(Wait wait)
{
    constexpr unsigned long long time = 300, most = 2 * time - 30;
    unsigned long long least = ~0ull;
    for (int i = 0; i < 8 && least >= most; ++i) {
        const unsigned long long start = now_ms();
        EXPECT_EQ(VIP_TIMEOUT, wait(static_cast<VIP_ULONG>(time)));
        const unsigned long long took = now_ms() - start;
        EXPECT(took + 2 >= time);
        least = std::min(least, took);
    }
    EXPECT(least < most);
}

} // namespace

TWO_PROCESS_CASE("a thread whose message comes when another's has come is woken for it",
                 "[VipRecvWait][full]") = {
    [](Peer &peer) {
        Endpoint first(peer, without_rdma()), second(peer, without_rdma());
        first.connect();
        second.connect();
        for (unsigned turn = 0; turn < kTurns; ++turn) { // either may be the one who watches the device
            first.receive(10);
            second.receive(10);
            Waiter one(turn % 2 == 0 ? first.vi : second.vi);
            let_a_moment_pass();
            Waiter other(turn % 2 == 0 ? second.vi : first.vi);
            let_a_moment_pass();
            peer.sync();
            one.expect(VIP_SUCCESS);
            peer.sync(); // now the other's
            other.expect(VIP_SUCCESS);
        }
    },
    [](Peer &peer) {
        Endpoint first(peer, without_rdma()), second(peer, without_rdma());
        first.connect();
        second.connect();
        for (unsigned turn = 0; turn < kTurns; ++turn) {
            Endpoint &one = turn % 2 == 0 ? first : second, &other = turn % 2 == 0 ? second : first;
            peer.sync();
            one.send("one");
            sent(one.vi);
            peer.sync();
            other.send("other");
            sent(other.vi);
        }
    },
};

TEST_CASE("all threads that wait for one queue are woken when it is flushed at once", "[VipRecvWait][full]")
{
    ConnectedPair pair;
    Vi server(pair.server_nic), client(pair.client_nic);
    connect_pair(pair.server_nic, server, pair.client_nic, client);
    post_recv(server, pair.server_memory.transfer(pair.server_memory.bytes(10)));
    Waiter watching(server); // the device, for them all, and goes on with it
    let_a_moment_pass();
    for (int i = 0; i < 3; ++i) {
        post_recv(pair.server, pair.server_memory.transfer(pair.server_memory.bytes(10)));
    }
    Waiter one(pair.server), two(pair.server), three(pair.server);
    let_a_moment_pass();
    REQUIRE_VIP(VipDisconnect(pair.client));
    one.expect(VIP_DESCRIPTOR_ERROR);
    two.expect(VIP_DESCRIPTOR_ERROR);
    three.expect(VIP_DESCRIPTOR_ERROR);
    REQUIRE_VIP(VipDisconnect(client));
    watching.finish(VIP_DESCRIPTOR_ERROR);
}

TEST_CASE("a wait whose time is up ends then", "[VipRecvWait][full]")
{
    ConnectedPair pair;
    const Cq cq(pair.client_nic);
    post_recv(pair.server, pair.server_memory.transfer(pair.server_memory.bytes(10)));
    VIP_DESCRIPTOR *done = nullptr;
    expect_in_time([&](VIP_ULONG time) { return VipRecvWait(pair.server, time, &done); });
    expect_in_time([&](VIP_ULONG time) {
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN queue = VIP_FALSE;
        return VipCQWait(cq, time, &vi, &queue);
    });
    NetAddress local = pair.server_nic.address(unique_discriminator());
    NetAddress remote = pair.server_nic.address(unique_discriminator());
    expect_in_time([&](VIP_ULONG time) {
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE request = nullptr;
        return VipConnectWait(pair.server_nic, local, time, remote, &attributes, &request);
    });
}

TWO_ROLE_CASE_AT(VIP_SERVICE_UNRELIABLE,
                 "a denied RDMA Write on an Unreliable VI is VIP_ERROR_RDMAW_PROT at its target, each time",
                 "[VipErrorCallback][full]") = {
    [](Peer &peer) {
        ErrorLog errors(peer.nic());
        Endpoint end(peer);
        end.connect();
        Memory closed(peer.nic(), 64, {}); // not registered for it
        peer.send(closed.bytes(64).remote());
        for (int i = 0; i < 3; ++i) {
            errors.expect(end.vi, VIP_ERROR_RDMAW_PROT);
        }
        errors.expect_none(end.vi);
        EXPECT_EQ(VIP_STATE_CONNECTED, end.vi.state());
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        const auto remote = peer.receive<RemoteSpan>();
        for (int i = 0; i < 3; ++i) {
            post_send(end.vi, end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, remote, end.memory.bytes(8)));
            VIP_DESCRIPTOR *done = nullptr;
            VipSendWait(end.vi, patience(), &done); // with or without an error, as the device has it
            EXPECT(done != nullptr);
        }
        peer.sync();
    },
};
