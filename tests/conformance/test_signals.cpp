// SPDX-License-Identifier: MIT
//
// Blocking calls and signals: a handler that runs in the calling thread ends the call with
// VIP_INTERRUPTED, whatever SA_RESTART says, and nothing has been consumed.
#include <atomic>
#include <csignal>
#include <thread>

#include <pthread.h>

#include "connect_roles.hpp"
#include "signals.hpp"

using namespace vipl_conformance;

namespace {

using BlockingCall = VIP_RETURN (*)(ConnectedPair &);

VIP_RETURN recv_wait(ConnectedPair &pair)
{
    VIP_DESCRIPTOR *done = reinterpret_cast<VIP_DESCRIPTOR *>(&pair);
    const VIP_RETURN rc = VipRecvWait(pair.server, patience(), &done);
    return done == nullptr ? rc : VIP_SUCCESS;
}

VIP_RETURN send_wait(ConnectedPair &pair)
{
    VIP_DESCRIPTOR *done = reinterpret_cast<VIP_DESCRIPTOR *>(&pair);
    const VIP_RETURN rc = VipSendWait(pair.server, patience(), &done);
    return done == nullptr ? rc : VIP_SUCCESS;
}

VIP_RETURN cq_wait(ConnectedPair &pair)
{
    const Cq cq(pair.server_nic);
    VIP_VI_HANDLE vi = &pair;
    VIP_BOOLEAN queue = VIP_FALSE;
    const VIP_RETURN rc = VipCQWait(cq, patience(), &vi, &queue);
    return vi == nullptr ? rc : VIP_SUCCESS;
}

VIP_RETURN connect_wait(ConnectedPair &pair)
{
    NetAddress local = pair.server_nic.address(unique_discriminator()), remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = &pair;
    const VIP_RETURN rc =
        VipConnectWait(pair.server_nic, local, patience(), remote, &attributes, &connection);
    return connection == nullptr ? rc : VIP_SUCCESS;
}

VIP_RETURN connect_request(ConnectedPair &pair)
{
    const Vi vi(pair.server_nic);
    const VIP_RETURN rc =
        request(vi, pair.server_nic.address("x"), pair.server_nic.address(unique_discriminator()));
    return vi.state() == VIP_STATE_IDLE ? rc : VIP_SUCCESS;
}

VIP_RETURN peer_wait(ConnectedPair &pair)
{
    const Vi vi(pair.server_nic);
    NetAddress local = pair.server_nic.address("x"), remote = pair.server_nic.address(unique_discriminator());
    REQUIRE_VIP(VipConnectPeerRequest(vi, local, remote, patience()));
    const VIP_RETURN rc = VipConnectPeerWait(vi, nullptr);
    // The connect is still under way.
    return vi.state() == VIP_STATE_CONNECT_PENDING && VipConnectPeerDone(vi, nullptr) == VIP_NOT_DONE
               ? rc
               : VIP_SUCCESS;
}

bool register_calls()
{
    struct Entry {
        const char *function;
        BlockingCall call;
    };
    static const Entry entries[] = {
        {"VipRecvWait", recv_wait},
        {"VipSendWait", send_wait},
        {"VipCQWait", cq_wait},
        {"VipConnectWait", connect_wait},
        {"VipConnectRequest", connect_request},
        {"VipConnectPeerWait", peer_wait},
    };
    for (const Entry &entry : entries) {
        for (const int flags : {0, SA_RESTART}) {
            register_case(std::string(entry.function) + " ends with VIP_INTERRUPTED when a handler runs" +
                              (flags == 0 ? "" : ", SA_RESTART or not"),
                          std::string("[") + entry.function + "][full]", CATCH_INTERNAL_LINEINFO,
                          [&entry, flags] {
                              ConnectedPair pair;
                              const Handler handler(flags);
                              REQUIRE_RC(VIP_INTERRUPTED, interrupted([&] { return entry.call(pair); }));
                          });
        }
    }
    return true;
}

[[maybe_unused]] const bool registered = register_calls();

} // namespace

TEST_CASE("VipRecvWait that was interrupted has consumed nothing", "[VipRecvWait][full]")
{
    ConnectedPair pair;
    const Handler handler(0);
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(10));
    post_recv(pair.server, in);
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(VIP_INTERRUPTED, interrupted([&] { return VipRecvWait(pair.server, patience(), &done); }));
    EXPECT(!pair.server.recv_queue_empty());
    post_send(pair.client, pair.client_memory.transfer(pair.client_memory.text("not lost")));
    sent(pair.client);
    EXPECT(received(pair.server) == in.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, in.desc);
}

TEST_CASE("VipConnectRequest that was interrupted leaves a VI that may ask again",
          "[VipConnectRequest][full]")
{
    const Nic nic;
    const Vi vi(nic), other(nic);
    const Handler handler(0);
    const std::string name = unique_discriminator();
    REQUIRE_RC(VIP_INTERRUPTED,
               interrupted([&] { return request(vi, nic.address("x"), nic.address(name)); }));
    EXPECT_EQ(VIP_STATE_IDLE, vi.state());
    expect_no_request(nic, nic.address(name), 0); // its request has gone with it
    connect_pair(nic, other, nic, vi);
}

TEST_CASE("calls that do not block are never VIP_INTERRUPTED", "[VipPostSend][full]")
{
    ConnectedPair pair;
    const Handler handler(0);
    std::atomic<bool> over{false};
    const pthread_t self = pthread_self();
    std::thread nuisance([&] {
        while (!over.load(std::memory_order_acquire)) {
            pthread_kill(self, SIGUSR1);
            std::this_thread::yield();
        }
    });
    std::string problem;
    try {
        for (int i = 0; i < 200; ++i) {
            VIP_DESCRIPTOR *done = nullptr;
            const Work in = pair.server_memory.transfer(pair.server_memory.bytes(8));
            const Work out = pair.client_memory.transfer(pair.client_memory.bytes(8));
            post_recv(pair.server, in);
            post_send(pair.client, out);
            while (VipSendDone(pair.client, &done) == VIP_NOT_DONE) {
            }
            EXPECT(done == out.desc);
            EXPECT_EQ(VIP_STATE_CONNECTED, pair.server.state());
            VIP_RETURN rc = VIP_NOT_DONE;
            while (rc == VIP_NOT_DONE) {
                rc = VipRecvDone(pair.server, &done);
            }
            REQUIRE_VIP(rc);
            EXPECT(done == in.desc);
        }
    } catch (const std::exception &error) {
        problem = error.what();
    }
    over.store(true, std::memory_order_release);
    nuisance.join();
    if (!problem.empty()) {
        throw Failure(problem);
    }
}
