// SPDX-License-Identifier: MIT
//
// Connect, exchange a message of a random size, disconnect: a thousand times in one process and 300
// times between two (or VIPL_STRESS_CONNECTIONS times each), at random reliability levels.
// Descriptors, threads, shared mappings and memory stay as they were after the first hundred.
#include "stress.hpp"

#include "census.hpp"

using namespace stress;

namespace {

constexpr VIP_UINT32 kLargest = 64 * 1024;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long kSlackKib = 64 * 1024; // freed memory is kept for a while, and shadowed
#else
constexpr long kSlackKib = 4 * 1024; // what allocators may keep
#endif

VIP_RELIABILITY_LEVEL level_of(std::uint64_t number)
{
    return static_cast<VIP_RELIABILITY_LEVEL>(1u << number % 3);
}

VIP_VI_ATTRIBUTES attributes_of(VIP_RELIABILITY_LEVEL level)
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes(level);
    attributes.EnableRdmaRead = level != VIP_SERVICE_UNRELIABLE;
    return attributes;
}

/** One end's buffers, used again for each connection. */
struct End {
    End()
        : memory(nic, 4 * kLargest), out(memory.transfer(memory.bytes(kLargest))),
          in(memory.transfer(memory.bytes(kLargest)))
    {
    }
    Nic nic;
    Memory memory;
    Work out, in;
};

void exchange(End &end, VIP_VI_HANDLE vi, VIP_UINT32 bytes, unsigned round)
{
    end.out.buffer.part(0, bytes).fill(round);
    end.out.desc->CS.Length = end.out.desc->DS[0].Local.Length = bytes;
    post_send(vi, end.out);
    EXPECT(received(vi) == end.in.desc);
    EXPECT_EQ(bytes, end.in.desc->CS.Length);
    EXPECT(end.in.buffer.part(0, bytes).holds(round));
    EXPECT(sent(vi) == end.out.desc);
}

constexpr unsigned kWarmUp = 100; // rounds after which nothing grows any more

/** Notes the census and the memory after the warm-up, and requires them at the end. */
class Watch {
public:
    void note(unsigned round)
    {
        if (round == kWarmUp) {
            census_ = take_census();
            resident_ = resident_kib();
        }
    }
    template <class Progress>
    void expect_flat(Progress progress) const
    {
        expect_census(census_, progress);
        const long grown = resident_kib() - resident_;
        std::cout << "memory grew by " << grown << " KiB" << std::endl;
        EXPECT(grown < kSlackKib);
    }

private:
    Census census_{};
    long resident_ = 0;
};

/** The two sides make the same random choices. */
struct Plan {
    explicit Plan(Random &random)
        : level(level_of(random())), bytes(static_cast<VIP_UINT32>(below(random, kLargest))),
          client_leaves(below(random, 2) == 0)
    {
    }
    VIP_RELIABILITY_LEVEL level;
    VIP_UINT32 bytes;
    bool client_leaves; // first; the other then disconnects a VI in ERROR
};

unsigned rounds(unsigned usual)
{
    return kWarmUp + 1 + times("VIPL_STRESS_CONNECTIONS", usual);
}

const unsigned g_remote_rounds = rounds(300);

void leave(const Vi &vi, bool first, Line &line)
{
    line.sync(); // both have what they exchanged
    if (first) {
        REQUIRE_VIP(VipDisconnect(vi));
    } else {
        vi.await(VIP_STATE_ERROR);
        REQUIRE_VIP(VipDisconnect(vi));
    }
}

void client(const Scene &scene, Line &line)
{
    End end;
    Random random = scene.random();
    for (unsigned round = 0; round < g_remote_rounds; ++round) {
        const Plan plan(random);
        const Vi vi(end.nic, attributes_of(plan.level));
        post_recv(vi, end.in);
        REQUIRE_VIP(request_to(end.nic, scene.name(), vi));
        exchange(end, vi, plan.bytes, round);
        leave(vi, plan.client_leaves, line);
    }
    line.sync();
}

void churn_between_processes(const char *pull)
{
    use_pull(pull);
    const Scene scene = make_scene(pull);
    Child child(client, scene);
    End end;
    Random random = scene.random();
    Watch watch;
    for (unsigned round = 0; round < g_remote_rounds; ++round) {
        const Plan plan(random);
        const Vi vi(end.nic, attributes_of(plan.level));
        post_recv(vi, end.in);
        REQUIRE_VIP(accept_on(end.nic, scene.name(), vi));
        exchange(end, vi, plan.bytes, round);
        leave(vi, !plan.client_leaves, child.line);
        watch.note(round);
    }
    watch.expect_flat([] {});
    child.line.sync();
    child.finish();
}

} // namespace

TEST_CASE("connections in one process, one after the other, leave nothing behind", "[churn]")
{
    End server, client;
    const std::string name = unique_discriminator();
    Random random(seed());
    Watch watch;
    REQUIRE_RC(VIP_NO_MATCH,
               request_to(client.nic, name + "-", Vi(client.nic), 0)); // what asking others takes once
    for (unsigned round = 0; round < rounds(1000); ++round) {
        const Plan plan(random);
        const Vi left(server.nic, attributes_of(plan.level)), right(client.nic, attributes_of(plan.level));
        post_recv(left, server.in);
        post_recv(right, client.in);
        Crew other;
        other.add([&] {
            REQUIRE_VIP(request_to(client.nic, name, right));
            exchange(client, right, plan.bytes, round);
        });
        REQUIRE_VIP(accept_on(server.nic, name, left));
        exchange(server, left, plan.bytes, round);
        other.join();
        const Vi &first = plan.client_leaves ? right : left, &second = plan.client_leaves ? left : right;
        REQUIRE_VIP(VipDisconnect(first));
        second.await(VIP_STATE_ERROR);
        REQUIRE_VIP(VipDisconnect(second));
        watch.note(round);
    }
    watch.expect_flat([] {});
}

TEST_CASE("connections between two processes, one after the other, leave nothing behind", "[churn]")
{
    churn_between_processes("auto");
}

TEST_CASE("connections between two processes, one after the other, leave nothing behind, through the rings",
          "[churn]")
{
    churn_between_processes("off");
}
