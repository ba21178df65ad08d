// SPDX-License-Identifier: MIT
//
// A process with shared objects is killed while its post is on the way: the server has it, but has not begun it. Somebody who
// knows of the death disconnects the VI; the post does not come afterwards, for it would be on the VI's next connection. And
// what the dead one held counts no more, though the server is not through with its call.
// The program is linked so that the server stops before the post (-Wl,--wrap=vipl_server_needs_rights) or in it (VipPostRecv), and
// so that the end of the dead one's last thread there is seen (vipl_server_release).
#include "stress.hpp"

#include <csignal>
#include <functional>
#include <future>
#include <memory>

#include <vipl/posix.h>

#include "support/forked.hpp"
#include "support/held_thread.hpp"
#include "support/tasks.hpp"

extern "C" {
#include "server/calls.h"
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
