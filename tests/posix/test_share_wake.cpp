// SPDX-License-Identifier: MIT
//
// POSIX extensions: of the processes and threads that wait for one object, those are woken that
// have something to take, or whose process drops it.
#include <vipl/posix.h>

#include <atomic>
#include <memory>
#include <vector>

#include "mixed.hpp"

using namespace vipl_conformance;

namespace {

constexpr unsigned kWaiters = 4;

} // namespace

TEST_CASE("what a killed process was told of and did not take is told to another", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true), own(device_under_test(), false);
    Memory memory(nic), own_memory(own);
    const Cq cq(nic);
    const Vi server(nic, vi_attributes(), nullptr, cq), client(own);
    connect_pair(nic, server, own, client);
    for (int round = 0; round < 20; ++round) {
        const Work in = memory.transfer(memory.bytes(8));
        post_recv(server, in);
        const Gate told;
        Fork child([&] {
            cq.expect(server, VIP_TRUE);
            told.open();
            for (;;) { // between VipCQWait() and VipRecvDone()
                pause();
            }
        });
        post_send(client, own_memory.transfer(own_memory.text("x")));
        sent(client);
        told.pass();
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        REQUIRE_RC(VIP_NOT_DONE, VipCQDone(cq, &vi, &recv)); // the child was told
        child.kill();
        within_a_second([&] { return VipCQWait(cq, patience(), &vi, &recv); });
        EXPECT(vi == server);
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipRecvDone(vi, &done));
        EXPECT(done == in.desc);
        REQUIRE_RC(VIP_NOT_DONE, VipCQDone(cq, &vi, &recv));
    }
}

TEST_CASE("all processes that wait are woken, one for each completion", "[sharing][posix]")
{
    Mixed world;
    const Gate ready, took;
    std::vector<std::unique_ptr<Fork>> waiters;
    for (unsigned i = 0; i < kWaiters; ++i) {
        world.receive(8);
        waiters.push_back(std::make_unique<Fork>([&] {
            ready.open();
            received(world.server);
            took.open();
        }));
        ready.pass();
    }
    for (unsigned i = 0; i < kWaiters; ++i) {
        world.client_says("one");
        within_a_second([&] {
            took.pass();
            return true;
        });
    }
    for (const auto &waiter : waiters) {
        waiter->finish();
    }
}

namespace {

/** A thread waits, then the process drops what it waits for: it comes back within a second. */
template <class Wait, class Drop>
void woken_by_drop(bool last, Wait wait, Drop drop)
{
    const Gate ended;
    std::unique_ptr<Fork> other;
    if (!last) {
        other = std::make_unique<Fork>([&] { ended.pass(); });
    }
    VIP_RETURN returned = VIP_SUCCESS;
    std::atomic<bool> back{false};
    std::thread waiter([&] {
        returned = wait();
        back = true;
    });
    let_a_moment_pass();
    const unsigned long long start = now_ms();
    VIP_RETURN dropped = VIP_SUCCESS;
    try {
        dropped = drop();
    } catch (...) {
    }
    waiter.join();
    const unsigned long long took = now_ms() - start;
    ended.open();
    if (other != nullptr) {
        other->finish();
    }
    REQUIRE_VIP(dropped);
    REQUIRE_RC(VIP_INVALID_PARAMETER, returned);
    EXPECT(took <= a_second());
}

void vi_waiter_is_woken(bool last)
{
    const Nic nic(device_under_test(), true);
    const Vi vi(nic);
    woken_by_drop(
        last,
        [&] {
            VIP_DESCRIPTOR *done = nullptr;
            return VipRecvWait(vi, patience(), &done);
        },
        [&] { return VipDestroyVi(vi); });
}

void cq_waiter_is_woken(bool last)
{
    const Nic nic(device_under_test(), true);
    const Cq cq(nic);
    woken_by_drop(
        last,
        [&] {
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN recv = VIP_FALSE;
            return VipCQWait(cq, patience(), &vi, &recv);
        },
        [&] { return VipDestroyCQ(cq); });
}

} // namespace

TEST_CASE("a wait that begins while the process drops the VI says VIP_INVALID_PARAMETER", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    const unsigned long long end =
        now_ms() + 3000; // a wait that is dropped at a bad moment looks after a second
    for (unsigned round = 0; round < 200 && now_ms() < end; ++round) {
        VIP_VI_HANDLE vi = nullptr;
        VIP_VI_ATTRIBUTES attributes = vi_attributes();
        REQUIRE_VIP(VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
        std::atomic<bool> begins{false};
        VIP_RETURN returned = VIP_SUCCESS;
        std::thread waiter([&] {
            VIP_DESCRIPTOR *done = nullptr;
            begins = true;
            returned = VipRecvWait(vi, patience(), &done);
        });
        while (!begins) {
        }
        for (unsigned spin = 0; spin < round % 20 * 20; ++spin) {
            begins = true; // the two meet at another place each time
        }
        const VIP_RETURN dropped = VipDestroyVi(vi);
        waiter.join();
        REQUIRE_VIP(dropped);
        REQUIRE_RC(VIP_INVALID_PARAMETER, returned);
    }
}

TEST_CASE("who waits is woken when the process drops the VI, the last to hold it", "[sharing][posix]")
{
    vi_waiter_is_woken(true);
}

TEST_CASE("who waits is woken when the process drops the VI that others hold", "[sharing][posix]")
{
    vi_waiter_is_woken(false);
}

TEST_CASE("who waits is woken when the process drops the completion queue, the last to hold it",
          "[sharing][posix]")
{
    cq_waiter_is_woken(true);
}

TEST_CASE("who waits is woken when the process drops the completion queue that others hold",
          "[sharing][posix]")
{
    cq_waiter_is_woken(false);
}
