// SPDX-License-Identifier: MIT
//
// Calls that wait while other threads close, disconnect or reap. A table of operations between core
// and the device lets a case decide when a send is complete, and what happens while core hands a
// request out.
#include <catch2/catch.hpp>

#include <atomic>
#include <future>

#include "internal.hpp"
#include "replaced.hpp"
#include "support/begin_call.hpp"
#include "support/net_address.hpp"
#include "support/objects.hpp"
#include "support/os_hooks.hpp"

using namespace vipl_test;
using unit::Replaced;

TEST_CASE("a request that a thread is about to get is not rejected before by closing", "[waiting]")
{
    static const Replaced *layer;
    static std::atomic<bool> rejected, rejected_early;
    static std::future<void> closing;
    const Nic nic, peer_nic;
    const Vi peer(peer_nic);
    Replaced replaced(nic);
    layer = &replaced;
    rejected = rejected_early = false;
    replaced.ops.conn_taken = [](vipl_be_nic *be, vipl_conn *conn) {
        begin_call(closing, [] { VipCloseNic(layer->nic->public_handle); });
        rejected_early = rejected.load();
        return rejected_early || layer->before->conn_taken(be, conn);
    };
    replaced.ops.conn_reject = [](vipl_be_nic *be, vipl_conn *conn, bool answer) {
        rejected = true;
        layer->before->conn_reject(be, conn, answer);
    };
    std::future<VIP_RETURN> request = std::async(std::launch::async, [&] {
        VIP_VI_ATTRIBUTES attributes{};
        return VipConnectRequest(peer, peer_nic.address("peer"), peer_nic.address("waiting"), patience(),
                                 &attributes);
    });
    NetAddress local = nic.address("waiting"), remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE conn = nullptr;
    CHECK(VipConnectWait(nic, local, patience(), remote, &attributes, &conn) == VIP_SUCCESS);
    closing.get();
    CHECK_FALSE(rejected_early);
    CHECK(request.get() == VIP_REJECT);
    CHECK(VipConnectReject(conn) == VIP_INVALID_PARAMETER);
}

TEST_CASE("a disconnect that waits for a send hears of it beside threads that reap", "[waiting]")
{
    static VIP_DESCRIPTOR *reaped;
    ConnectedPair pair;
    const Vi watched(pair.client_nic);
    std::future<void> leader, reaper, disconnecting;
    Replaced replaced(pair.client_nic);
    replaced.ops.post_send = [](vipl_be_nic *, vipl_vi *, vipl_send *) { return VIPL_POSTED_PENDING; };
    const Work send = pair.client_memory.transfer(pair.client_memory.text("late"));
    post_send(pair.client, send);
    auto *vi = static_cast<vipl_vi *>(vipl_handle_find(VIPL_KIND_VI, pair.client));
    const auto end = now_ms() + 2000;
    begin_call(leader, [&] { // neither of the others watches the device, and passes that on
        VIP_DESCRIPTOR *none = nullptr;
        VipRecvWait(watched, VIP_INFINITE, &none);
    });
    SECTION("that wait before it")
    {
        begin_call(reaper, [&] { VipSendWait(pair.client, patience(), &reaped); });
        begin_call(disconnecting, [&] { VipDisconnect(pair.client); });
    }
    SECTION("that wait behind it")
    {
        begin_call(disconnecting, [&] { VipDisconnect(pair.client); });
        begin_call(reaper, [&] { VipSendWait(pair.client, patience(), &reaped); });
    }
    vipl_up_send_done(vi, 0, 0, 4);
    disconnecting.get();
    reaper.get();
    CHECK(now_ms() < end);
    CHECK(reaped == send.desc);
    CHECK(send.status() == VIP_STATUS_DONE);
    Work wake = pair.client_memory.work(0); // an idle VI's receive that is flushed
    REQUIRE(vipl_vi_lock_recv(watched) != nullptr);
    auto *other = static_cast<vipl_vi *>(vipl_handle_find(VIPL_KIND_VI, watched));
    REQUIRE(vipl_queue_post_locked(&other->recv, wake.desc, 0) == VIP_SUCCESS);
    vipl_queue_flush_locked(&other->recv);
    vipl_biased_unlock(&other->recv.lock);
    leader.get();
}

TEST_CASE("VipConnectPeerWait that cannot sleep says so, and the request goes on", "[waiting]")
{
    const Nic nic;
    const Vi vi(nic);
    VIP_VI_ATTRIBUTES attributes{};
    REQUIRE_VIP(VipConnectPeerRequest(vi, nic.address("one"), nic.address("other"), patience()));
    std::async(std::launch::async,
               [&] { // a thread that has no waker yet
                   vipl_resource_fail_after(1);
                   CHECK(VipConnectPeerWait(vi, &attributes) == VIP_ERROR_RESOURCE);
                   CHECK(vipl_resource_fail_after(-1));
               })
        .get();
    CHECK(VipConnectPeerDone(vi, &attributes) == VIP_NOT_DONE);
    REQUIRE_VIP(VipDisconnect(vi));
}

namespace {

/** A VI that a thread of the library holds, as while it tells the backend of the end of a
 * connection. */
class Held {
public:
    explicit Held(VIP_VI_HANDLE handle) : vi_(static_cast<vipl_vi *>(vipl_handle_find(VIPL_KIND_VI, handle)))
    {
        vipl_vi_hold(vi_);
    }
    ~Held() { put(); }
    Held(const Held &) = delete;
    Held &operator=(const Held &) = delete;
    void put()
    {
        if (vi_ != nullptr) {
            vipl_vi_put(vi_);
        }
        vi_ = nullptr;
    }

private:
    vipl_vi *vi_;
};

} // namespace

TEST_CASE("all threads that wait until a VI is not held go on, not only one", "[waiting]")
{
    const Nic nic;
    const Vi vi(nic);
    std::future<void> changing[3];
    std::atomic<unsigned> changed{0};
    {
        Held held(vi);
        for (auto &each : changing) {
            begin_call(each, [&] {
                VIP_VI_ATTRIBUTES attributes = vi_attributes();
                changed += VipSetViAttributes(vi, &attributes) == VIP_SUCCESS ? 1 : 0;
            });
        }
        CHECK(changed == 0);
    }
    for (auto &each : changing) {
        const bool over = each.wait_for(std::chrono::milliseconds(patience())) == std::future_status::ready;
        CHECK(over);
        if (!over) { // let it end
            vipl_futex_wake_all(
                &static_cast<vipl_vi *>(vipl_handle_find(VIPL_KIND_VI, VIP_VI_HANDLE(vi)))->holds);
        }
    }
    CHECK(changed == 3);
}

TEST_CASE("a thread that waits to change a VI leaves the NIC handle to others, who may end the wait",
          "[waiting]")
{
    const Nic nic;
    const Vi vi(nic);
    const Ptag tag(nic);
    std::future<void> changing, other;
    Held held(vi);
    begin_call(changing, [&] {
        VIP_VI_ATTRIBUTES attributes = vi_attributes();
        attributes.Ptag = tag;
        CHECK(VipSetViAttributes(vi, &attributes) == VIP_SUCCESS);
    });
    other = std::async(std::launch::async, [&] { const Ptag another(nic); });
    const bool passed = other.wait_for(std::chrono::milliseconds(patience())) == std::future_status::ready;
    held.put();
    changing.get();
    other.get();
    CHECK(passed);
    CHECK(VipDestroyPtag(nic, tag) == VIP_ERROR_RESOURCE); // the VI uses it
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.MaxTransferSize = 0;
    attributes.Ptag = tag;
    CHECK(VipSetViAttributes(vi, &attributes) == VIP_INVALID_MTU);
    attributes = vi_attributes();
    REQUIRE_VIP(VipSetViAttributes(vi, &attributes));
    CHECK(VipDestroyPtag(nic, tag) ==
          VIP_SUCCESS); // the VI has another, and the attempt that failed left none
}
