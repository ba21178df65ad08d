// SPDX-License-Identifier: MIT
//
// POSIX extensions: sends that are left to the server of shared objects. It is stopped while they
// are posted, so that it finds them together.
#include <vipl/posix.h>

#include "family.hpp"
#include "stopped.hpp"

using namespace vipl_conformance;

namespace {

/** A shared VI that sends, and its peer, which is private and has receives for all that comes. */
struct Sender {
    explicit Sender(unsigned most)
    {
        for (unsigned i = 0; i < most; ++i) {
            receives.push_back(own_memory.transfer(own_memory.bytes(4)));
            post_recv(peer, receives.back());
            VIP_UINT32 number = i;
            sends.push_back(memory.transfer(memory.bytes(4)));
            std::memcpy(sends.back().buffer.data, &number, sizeof number);
        }
        connect_pair(own, peer, nic, vi);
    }
    void post(unsigned number) { post_send(vi, sends[number]); }
    void expect_arrivals()
    {
        for (unsigned i = 0; i < receives.size(); ++i) {
            VIP_UINT32 number = 0;
            EXPECT(received(peer) == receives[i].desc);
            std::memcpy(&number, receives[i].buffer.data, sizeof number);
            EXPECT_EQ(i, number);
        }
    }

    Nic nic{device_under_test(), true}, own{device_under_test(), false};
    Memory memory{nic}, own_memory{own};
    Vi vi{nic}, peer{own};
    std::vector<Work> sends, receives;
};

} // namespace

TEST_CASE("sends that a killed process had posted go out", "[VipPostSend][sharing][posix]")
{
    constexpr unsigned kSends = 5;
    Sender world(kSends);
    const Gate ready, stopped_now, posted;
    Fork child([&] {
        VIP_VI_STATE state;
        REQUIRE_VIP(VipQueryVi(world.vi, &state, nullptr, nullptr, nullptr)); // the server knows this process
        ready.open();
        stopped_now.pass();
        for (unsigned i = 0; i < kSends; ++i) {
            world.post(i);
        }
        posted.open();
        for (;;) {
            pause();
        }
    });
    ready.pass();
    {
        const Stopped stopped(server());
        stopped_now.open();
        posted.pass();
        child.kill();
    }
    world.expect_arrivals();
    for (const Work &send : world.sends) {
        EXPECT(sent(world.vi) == send.desc);
    }
}

TEST_CASE("sends that processes post in turn go out in turn", "[VipPostSend][sharing][posix]")
{
    constexpr unsigned kSends = 64; // fewer than a process may leave to the server
    Sender world(kSends);
    const Gate ready, yours, mine;
    const auto post_every_other = [&](unsigned first, const Gate &before, const Gate &after) {
        for (unsigned i = first; i < kSends; i += 2) {
            before.pass();
            world.post(i);
            after.open();
        }
    };
    Fork child([&] {
        VIP_VI_STATE state;
        REQUIRE_VIP(VipQueryVi(world.vi, &state, nullptr, nullptr, nullptr)); // the server knows this process
        ready.open();
        post_every_other(1, yours, mine);
    });
    ready.pass();
    {
        const Stopped stopped(server());
        mine.open();
        post_every_other(0, mine, yours);
        child.finish();
    }
    world.expect_arrivals();
}

TEST_CASE("what was posted before VipDeregisterMem of its descriptor is sent",
          "[VipDeregisterMem][sharing][posix]")
{
    Sender world(50);
    for (Work &send : world.sends) {
        Memory passing(world.nic);
        Span bytes = send.buffer;
        if (!device_is_rnic()) { // a card reads them after the post: only the descriptor may go before
            bytes = passing.bytes(4);
            std::memcpy(bytes.data, send.buffer.data, 4);
        }
        Work copy = passing.transfer(bytes);
        post_send(world.vi, copy);
        passing.deregister();
        EXPECT(sent(world.vi) == copy.desc);
    }
    world.expect_arrivals();
}

TEST_CASE("more sends than a process may leave to the server are posted all the same",
          "[VipPostSend][sharing][posix]")
{
    constexpr unsigned kSends = 300;
    Sender world(kSends);
    Stopped stopped(server());
    for (unsigned i = 0; i < 100; ++i) {
        world.post(i);
    }
    stopped.go_on();
    for (unsigned i = 100; i < kSends; ++i) {
        world.post(i);
    }
    world.expect_arrivals();
}
