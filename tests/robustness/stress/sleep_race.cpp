// SPDX-License-Identifier: MIT
//
// Posts that race with a device that is about to rest: VIPL_STRESS_SLEEPS times, one thing is posted, completes, and after a
// random moment the next one is posted, just as whatever carries it out finds nothing more to do. One that is missed would
// wait for ever. Half of the completions are looked for, the other half waited for, which races in the same way with
// what arms the wait. Run it with a device that does not spin before it rests.
#include "partner.hpp"
#include "stress.hpp"

using namespace stress;

namespace {

constexpr unsigned kMostDelay = 20000; // nanoseconds

/** A target that does nothing but to be there. */
void target(const Scene &scene, Line &line)
{
    const Nic nic;
    Memory memory(nic, 4096, rdma_memory());
    const Vi vi(nic);
    REQUIRE_VIP(accept_on(nic, scene.name(), vi));
    const Span word = memory.bytes(8);
    line.send(word.remote());
    line.receive<char>(10000 * patience());
    line.send(__atomic_load_n(reinterpret_cast<const std::uint64_t *>(word.data), __ATOMIC_ACQUIRE));
    line.sync();
}

void spin(std::chrono::nanoseconds time)
{
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
    }
}

void look_until_sent(VIP_VI_HANDLE vi, const Work &work)
{
    VIP_DESCRIPTOR *done = nullptr;
    VIP_RETURN rc = VipSendDone(vi, &done);
    for (unsigned long long end = 0; rc == VIP_NOT_DONE; rc = VipSendDone(vi, &done)) {
        end = end == 0 ? now_ms() + patience() : end;
        if (now_ms() > end) {
            throw Failure("what was posted does not complete");
        }
        std::this_thread::yield();
    }
    REQUIRE_VIP(rc);
    EXPECT(done == work.desc);
}

void race(Where where)
{
    const unsigned rounds = times("VIPL_STRESS_SLEEPS", 50000);
    const Scene scene = make_scene();
    Random random = scene.random();
    Partner partner(where, target, scene);
    const Nic nic;
    Memory memory(nic, 4096);
    const Vi vi(nic);
    REQUIRE_VIP(request_to(nic, scene.name(), vi));
    const auto remote = partner.line().receive<RemoteSpan>();
    const Work work = memory.rdma(VIP_CONTROL_OP_RDMAWRITE, remote, memory.bytes(8));
    for (std::uint64_t round = 1; round <= rounds; ++round) {
        std::memcpy(work.buffer.data, &round, sizeof round);
        post_send(vi, work);
        if (round % 2 == 0) {
            EXPECT(sent(vi) == work.desc);
        } else {
            look_until_sent(vi, work);
        }
        work.desc->CS.Status = 0;
        spin(
            std::chrono::nanoseconds(below(random, 4) == 0 ? below(random, kMostDelay) : below(random, 500)));
    }
    partner.line().send('E');
    EXPECT_EQ(std::uint64_t{rounds}, partner.line().receive<std::uint64_t>());
    partner.line().sync();
    partner.finish();
}

} // namespace

TEST_CASE("no post is missed by a device that is about to rest, in one process", "[sleeps][inproc]")
{
    race(Where::thread);
}

TEST_CASE("no post is missed by a device that is about to rest, between processes", "[sleeps][procs]")
{
    race(Where::process);
}
