// SPDX-License-Identifier: MIT
//
// A process with shared objects is killed while its post is on the way: the server has it, but has
// not begun it. Somebody who knows of the death disconnects the VI; the post does not come
// afterwards, for it would be on the VI's next connection. And what the dead one held counts no
// more, though the server is not through with its call. The program is linked so that the server
// stops before the post (-Wl,--wrap=vipl_server_needs_rights) or in it (VipPostRecv), and so that
// the end of the dead one's last thread there is seen (vipl_server_release).
#include "stress.hpp"

#include <csignal>
#include <functional>
#include <future>
#include <memory>

#include <poll.h>

#include <vipl/posix.h>

#include "posix/family.hpp"
#include "support/forked.hpp"
#include "support/held_thread.hpp"
#include "support/tasks.hpp"

extern "C" {
#include "server/calls.h"
#include "share/client.h"
#include "share/posts.h"
VIP_RETURN __real_VipPostRecv(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);
VIP_RETURN __wrap_VipPostRecv(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory);
bool __real_vipl_server_needs_rights(const vipl_call *call);
bool __wrap_vipl_server_needs_rights(const vipl_call *call);
bool __real_vipl_server_release(unsigned client, const void *nic);
bool __wrap_vipl_server_release(unsigned client, const void *nic);
}

using namespace stress;

namespace {

/** Between the case and its server. */
struct Board {
    std::atomic<bool> hold{false};       // the next post waits
    std::atomic<bool> hold_begun{false}; // it has found its VI, and waits
    std::atomic<bool> held{false};       // it does
    std::atomic<unsigned> released{0};
    std::atomic<pid_t> server{0};
};

unsigned reap_all(VIP_VI_HANDLE vi)
{
    VIP_DESCRIPTOR *done = nullptr;
    unsigned count = 0;
    while (VipRecvDone(vi, &done) != VIP_NOT_DONE) {
        count++;
    }
    return count;
}

/** Whether the server has ended, as the system tells it. */
bool server_has_ended()
{
    pollfd set = {vipl_share_lifeline(), POLLIN, 0};
    return poll(&set, 1, 0) == 1;
}

/** In the server. */
void wait_while(const std::atomic<bool> &hold)
{
    Board &ring = shared<Board>();
    if (hold) {
        ring.server = getpid();
        ring.held = true;
        await([&] { return !hold; });
    }
}

/** A child that is killed in the middle of a post on a connected VI, and awaited. */
struct KilledPoster {
    KilledPoster()
    {
        ring.held = false;
        ring.released = 0;
        connect_pair(nic, vi, own, peer);
    }

    /** The child posts, after something else; the server has it. */
    void post(const std::function<void()> &first, bool begin = false)
    {
        (begin ? ring.hold_begun : ring.hold) = true;
        poster = std::make_unique<Forked>([&](const ParentLine &) {
            first();
            VipPostRecv(vi, receive.desc, receive.handle);
        });
        await([&] { return ring.held.load(); });
    }
    void kill()
    {
        ::kill(poster->pid(), SIGKILL);
        poster->finish_with_signal(SIGKILL);
    }
    void connect_anew()
    {
        REQUIRE_VIP(VipDisconnect(peer));
        connect_pair(nic, vi, own, peer);
    }
    /** The post goes on, and the server is through with it. */
    void release()
    {
        ring.hold = ring.hold_begun = false;
        await([&] { return ring.released == 1; });
    }

    Board &ring = shared<Board>();
    const Nic nic{device_under_test(), true}, own{device_under_test(), false};
    const Vi vi{nic}, peer{own};
    Memory memory{nic};
    const Work receive = memory.transfer(memory.bytes(8));
    std::unique_ptr<Forked> poster;
};

} // namespace

VIP_RETURN __wrap_VipPostRecv(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *descriptor, VIP_MEM_HANDLE memory)
{
    if (!vipl_handle_is_shared(vi)) { // the server's own, and the other end's
        wait_while(shared<Board>().hold_begun);
    }
    return __real_VipPostRecv(vi, descriptor, memory);
}

bool __wrap_vipl_server_needs_rights(const vipl_call *call)
{
    if (call->name == VIPL_CALL_POST_RECV) {
        wait_while(shared<Board>().hold);
    }
    return __real_vipl_server_needs_rights(call);
}

bool __wrap_vipl_server_release(unsigned client, const void *nic)
{
    const bool done = __real_vipl_server_release(client, nic);
    shared<Board>().released += done && nic == nullptr ? 1 : 0;
    return done;
}

TEST_CASE("what a killed process was posting does not come after a disconnect by who knows of its end",
          "[sharing]")
{
    KilledPoster scene;
    scene.post([] {});
    scene.kill();
    REQUIRE_VIP(VipDisconnect(scene.vi));
    REQUIRE(reap_all(scene.vi) == 0);
    scene.connect_anew();
    scene.release();
    REQUIRE_VIP(VipDisconnect(scene.vi));
    REQUIRE(reap_all(scene.vi) == 0);
}

TEST_CASE("nor does it if the server has not yet seen the end", "[sharing]")
{
    KilledPoster scene;
    std::future<void> caller;
    scene.post([] {});
    {
        const HeldThread first(scene.ring.server); // which sees it
        scene.kill();
        begin_call(caller, [&] {
            REQUIRE_VIP(VipDisconnect(scene.vi));
            reap_all(scene.vi); // it may have been posted before
            scene.connect_anew();
        });
        scene.ring.hold = false;
    }
    caller.get();
    scene.release();
    REQUIRE_VIP(VipDisconnect(scene.vi));
    REQUIRE(reap_all(scene.vi) == 0);
}

TEST_CASE("a disconnect waits for a post that has begun", "[sharing]")
{
    KilledPoster scene;
    std::future<void> caller;
    scene.post([] {}, true);
    scene.kill();
    begin_call(caller, [&] {
        REQUIRE_VIP(VipDisconnect(scene.vi));
        REQUIRE(reap_all(scene.vi) == 1);
        scene.connect_anew();
    });
    scene.release();
    caller.get();
    REQUIRE_VIP(VipDisconnect(scene.vi));
    REQUIRE(reap_all(scene.vi) == 0);
}

TEST_CASE("a killed process whose call the server still makes holds nothing that others hold", "[sharing]")
{
    KilledPoster scene;
    VIP_CQ_HANDLE cq = nullptr;
    VIP_VI_HANDLE vi = nullptr;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    REQUIRE_VIP(VipCreateCQ(scene.nic, 16, &cq));
    REQUIRE_VIP(VipCreateVi(scene.nic, &attributes, cq, cq, &vi));
    scene.post([&] { REQUIRE_VIP(VipDestroyCQ(cq)); }); // but not the VI that reports to it
    scene.kill();
    REQUIRE_VIP(VipDestroyVi(vi));
    REQUIRE_VIP(VipDestroyCQ(cq));
    scene.release();
}

TEST_CASE("room that killed processes had claimed and not used is found again", "[sharing]")
{
    const Nic nic{device_under_test(), true};
    const Vi vi{nic};
    Memory memory{nic};
    const Work send = memory.work();
    vipl_ring &queue = vipl_share_arena()->vis[vipl_handle_slot(vi)].queues[0];
    for (unsigned i = 0; i < VIPL_SHARE_DEPTH; i++) {
        REQUIRE_VIP(VipPostSend(vi, send.desc, send.handle)); // flushed, and not reaped
        if (i % 100 == 0) {
            __atomic_fetch_add(&queue.claimed, 1, __ATOMIC_SEQ_CST);
        }
    }
    REQUIRE(VipPostSend(vi, send.desc, send.handle) == VIP_ERROR_RESOURCE);
}

TEST_CASE("what is written into the rings of sends at random harms no other process", "[sharing]")
{
    const Nic nic{device_under_test(), true};
    const Vi vi{nic};
    Memory memory{nic};
    const Work send = memory.work();
    vipl_posts &posts = vipl_share_arena()->posts;
    vipl_submissions &ring = posts.clients[vipl_share_number()];
    const auto written = [&](const vipl_submission &entry, uint32_t more) {
        ring.entries[ring.tail % VIPL_SHARE_POSTS] = entry;
        __atomic_fetch_add(&ring.tail, more, __ATOMIC_SEQ_CST);
        posts.pending[vipl_share_number() / 32] |= 1u << vipl_share_number() % 32;
        VIP_VI_STATE state;
        REQUIRE_VIP(VipQueryVi(vi, &state, nullptr, nullptr, nullptr));
    };
    written({nullptr, send.desc, send.handle, posts.stamp}, 1);
    written({vi, nullptr, send.handle, posts.stamp + 1000}, 1);
    written({vi, send.desc, send.handle + 1, posts.stamp - 1000}, 1);
    written({reinterpret_cast<void *>(~uintptr_t{0}), send.desc, send.handle, 0}, 1);
    written({vi, send.desc, send.handle, 0}, 100000);
    Forked other([&](const ParentLine &) {
        VIP_DESCRIPTOR *done = nullptr;
        for (int i = 0; i < 300; i++) {
            REQUIRE_VIP(VipPostSend(vi, send.desc, send.handle));
            REQUIRE(VipSendWait(vi, 10000, &done) == VIP_DESCRIPTOR_ERROR);
        }
    });
    other.finish();
}

TEST_CASE("a server that was awake when it was killed takes no post after a call has failed", "[sharing]")
{
    const Nic nic{device_under_test(), true};
    const Vi vi{nic};
    Memory memory{nic};
    const Work send = memory.work();
    VIP_VI_STATE state;
    ::kill(vipl_conformance::server(), SIGKILL);
    await([] { return server_has_ended(); });
    __atomic_store_n(&vipl_share_arena()->posts.asleep, 0, __ATOMIC_SEQ_CST); // as such a server leaves it
    REQUIRE(VipQueryVi(vi, &state, nullptr, nullptr, nullptr) == VIP_ERROR_RESOURCE);
    REQUIRE(VipPostSend(vi, send.desc, send.handle) == VIP_ERROR_RESOURCE);
}
