// SPDX-License-Identifier: MIT
//
// VipErrorCallback itself: who is called, with what, on which thread, how often, and what a handler
// may do. The codes are provoked where their causes are tested.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "support/error_log.hpp"
#include "support/role_case.hpp"
#include "support/system.hpp"

using namespace vipl_test;

namespace {

/** The other side of most cases: connects, and disconnects after a sync. */
void connect_and_leave(Peer &peer)
{
    Endpoint end(peer);
    end.connect();
    peer.sync();
    REQUIRE_VIP(VipDisconnect(end.vi));
    peer.sync();
}

bool await_flag(const std::atomic<int> &flag, int value)
{
    const unsigned long long end = now_ms() + patience();
    while (flag.load(std::memory_order_acquire) != value && now_ms() < end) {
        give_way();
    }
    return flag.load(std::memory_order_acquire) == value;
}

} // namespace

TWO_ROLE_CASE("VipErrorCallback's handler is told NIC handle, VI, resource and code",
              "[VipErrorCallback][functional]") = {
    [](Peer &peer) {
        ErrorLog errors(peer.nic());
        Endpoint end(peer);
        end.connect();
        peer.sync();
        const VIP_ERROR_DESCRIPTOR error = errors.next();
        EXPECT(error.NicHandle == peer.nic().handle());
        EXPECT(error.ViHandle == static_cast<VIP_VI_HANDLE>(end.vi));
        EXPECT(error.CQHandle == nullptr);
        EXPECT(error.DescriptorPtr == nullptr);
        EXPECT_EQ(VIP_RESOURCE_VI, error.ResourceCode);
        EXPECT_EQ(VIP_ERROR_CONN_LOST, error.ErrorCode);
        peer.sync();
    },
    connect_and_leave,
};

TWO_ROLE_CASE("VipErrorCallback with NULL restores the default handler", "[VipErrorCallback][functional]") = {
    [](Peer &peer) {
        ErrorLog errors(peer.nic());
        REQUIRE_VIP(VipErrorCallback(peer.nic(), nullptr, nullptr));
        Endpoint end(peer);
        end.connect();
        peer.sync();
        end.vi.await(VIP_STATE_ERROR);
        errors.expect_none();
        peer.sync();
    },
    connect_and_leave,
};

TWO_ROLE_CASE("VipErrorCallback replaces the handler before", "[VipErrorCallback][functional]") = {
    [](Peer &peer) {
        ErrorLog first(peer.nic()), second(peer.nic());
        Endpoint end(peer);
        end.connect();
        peer.sync();
        second.expect(end.vi, VIP_ERROR_CONN_LOST);
        first.expect_none();
        peer.sync();
    },
    connect_and_leave,
};

TWO_ROLE_CASE("VipErrorCallback's handler of one NIC handle hears nothing of another",
              "[VipErrorCallback][functional]") = {
    [](Peer &peer) {
        const Nic other;
        ErrorLog errors(peer.nic()), others(other);
        Endpoint end(peer);
        end.connect();
        peer.sync();
        errors.expect(end.vi, VIP_ERROR_CONN_LOST);
        others.expect_none();
        peer.sync();
    },
    connect_and_leave,
};

namespace {

/** A handler that takes the broken VI away; result 1: all its calls succeeded. */
struct Undertaker {
    static std::atomic<int> result;
    static void VI_CALL handler(VIP_PVOID, VIP_ERROR_DESCRIPTOR *error)
    {
        VIP_VI_STATE state = VIP_STATE_IDLE;
        VIP_DESCRIPTOR *done = nullptr;
        const bool good = VipQueryVi(error->ViHandle, &state, nullptr, nullptr, nullptr) == VIP_SUCCESS &&
                          state == VIP_STATE_ERROR &&
                          VipRecvDone(error->ViHandle, &done) == VIP_DESCRIPTOR_ERROR && done != nullptr &&
                          VipDisconnect(error->ViHandle) == VIP_SUCCESS &&
                          VipDestroyVi(error->ViHandle) == VIP_SUCCESS;
        result.store(good ? 1 : 2, std::memory_order_release);
    }
};
std::atomic<int> Undertaker::result{0};

} // namespace

TWO_ROLE_CASE("VipErrorCallback's handler may reap, disconnect and destroy the VI",
              "[VipErrorCallback][functional]") = {
    [](Peer &peer) {
        Undertaker::result.store(0);
        Endpoint end(peer);
        end.receive(10);
        end.connect();
        REQUIRE_VIP(VipErrorCallback(peer.nic(), nullptr, Undertaker::handler));
        peer.sync();
        EXPECT(await_flag(Undertaker::result, 1));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipDisconnect(end.vi));
        REQUIRE_VIP(VipErrorCallback(peer.nic(), nullptr, nullptr));
        peer.sync();
    },
    connect_and_leave,
};

namespace {

struct ThreadSeen {
    std::thread::id id;
    std::atomic<int> called{0};
    static void VI_CALL handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *)
    {
        auto *seen = static_cast<ThreadSeen *>(context);
        seen->id = std::this_thread::get_id();
        seen->called.store(1, std::memory_order_release);
    }
};

} // namespace

TWO_ROLE_CASE("VipErrorCallback's handler runs on a thread of the library's",
              "[VipErrorCallback][functional]") = {
    [](Peer &peer) {
        static ThreadSeen seen;
        seen.called.store(0);
        REQUIRE_VIP(VipErrorCallback(peer.nic(), &seen, ThreadSeen::handler));
        Endpoint end(peer);
        end.connect();
        peer.sync();
        EXPECT(await_flag(seen.called, 1));
        EXPECT(seen.id != std::this_thread::get_id());
        REQUIRE_VIP(VipErrorCallback(peer.nic(), nullptr, nullptr));
        peer.sync();
    },
    connect_and_leave,
};

TWO_PROCESS_CASE("VipErrorCallback's handler may call exit()", "[VipErrorCallback][functional]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        REQUIRE_VIP(VipDisconnect(end.vi));
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.receive(10);
        end.connect();
        REQUIRE_VIP(
            VipErrorCallback(peer.nic(), nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) { std::exit(42); }));
        peer.will_exit(42);
        peer.sync();
        wait_for_the_end();
    },
};
