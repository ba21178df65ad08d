// SPDX-License-Identifier: MIT
//
// Posts that race with a device that is about to rest: VIPL_STRESS_SLEEPS times, one thing is
// posted, completes, and after a random moment the next one is posted, just as whatever carries it
// out finds nothing more to do. One that is missed waits for ever, if no timer of the device comes
// to its help: so some moments are longer than those. Half of the completions are looked for, the
// other half waited for, which races in the same way with what arms the wait. One side posts, so
// that nothing else wakes the device; or both do, where it works in the threads of its callers. Run
// it with a device that does not spin before it rests.
#include "partner.hpp"
#include "stress.hpp"

using namespace stress;

namespace {

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

/** Nanoseconds: at once, as the device has done its work, or as its timers have run out. */
std::chrono::nanoseconds some_moment(Random &random)
{
    const std::uint64_t kind = below(random, 8);
    return std::chrono::nanoseconds(kind < 4   ? below(random, 500)
                                    : kind < 6 ? below(random, 20000)
                                               : below(random, 250000));
}

/** One side: it writes running numbers to the other's word. */
class Racer {
public:
    Racer() : memory_(nic, 4096, rdma_memory()), vi(nic), word_(memory_.bytes(8)), from_(memory_.bytes(8)) {}

    RemoteSpan word() const { return word_.remote(); }
    std::uint64_t seen() const
    {
        return __atomic_load_n(reinterpret_cast<const std::uint64_t *>(word_.data), __ATOMIC_ACQUIRE);
    }

    void race(RemoteSpan remote, unsigned rounds, Random random)
    {
        const Work work = memory_.rdma(VIP_CONTROL_OP_RDMAWRITE, remote, from_);
        for (std::uint64_t round = 1; round <= rounds; ++round) {
            std::memcpy(from_.data, &round, sizeof round);
            post_send(vi, work);
            if (round % 2 == 0) {
                EXPECT(sent(vi) == work.desc);
            } else {
                look_until_sent(vi, work);
            }
            work.desc->CS.Status = 0;
            spin(some_moment(random));
        }
    }

    const Nic nic;

private:
    Memory memory_;

public:
    const Vi vi;

private:
    Span word_, from_;
};

/** What a side is told of the other. */
struct Greeting {
    RemoteSpan word;
    unsigned rounds;
};

void other_side(const Scene &scene, Line &line)
{
    Racer racer;
    REQUIRE_VIP(accept_on(racer.nic, scene.name(), racer.vi));
    line.send(racer.word());
    const auto greeting = line.receive<Greeting>();
    racer.race(greeting.word, greeting.rounds, scene.random());
    const auto last = line.receive<std::uint64_t>(10000 * patience());
    EXPECT_EQ(last, racer.seen());
    line.sync();
}

enum class Who { one, both };

void race(Where where, Who who)
{
    const unsigned rounds = times("VIPL_STRESS_SLEEPS", 20000);
    const unsigned theirs = who == Who::both ? rounds : 0;
    const Scene scene = make_scene();
    Partner partner(where, other_side, scene);
    Racer racer;
    REQUIRE_VIP(request_to(racer.nic, scene.name(), racer.vi));
    const auto remote = partner.line().receive<RemoteSpan>();
    partner.line().send(Greeting{racer.word(), theirs});
    racer.race(remote, rounds, Random(scene.seed + 1));
    partner.line().send(std::uint64_t{rounds});
    EXPECT_EQ('S', partner.line().receive<char>(10000 * patience()));
    EXPECT_EQ(std::uint64_t{theirs}, racer.seen());
    partner.line().send('S');
    partner.finish();
}

} // namespace

TEST_CASE("no post is missed by a device that is about to rest, in one process", "[sleeps][inproc]")
{
    race(Where::thread, Who::one);
}

TEST_CASE("no post is missed by a device that is about to rest, where both sides post", "[sleeps][inproc]")
{
    race(Where::thread, Who::both);
}

TEST_CASE("no post is missed by a device that is about to rest, between processes", "[sleeps][procs]")
{
    race(Where::process, Who::one);
}
