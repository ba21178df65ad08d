// SPDX-License-Identifier: MIT
//
// A receive is posted, the peer is told so by other means, and sends at once: VIPL_STRESS_RECEIVES
// times the message finds the receive. Told through memory that both share, which is fastest, and
// through a socket. A message that found none would break the connection.
#include "partner.hpp"
#include "stress.hpp"
#include "support/error_log.hpp"

using namespace stress;

namespace {

/** The running number of the receive that is posted. */
struct Board {
    std::atomic<std::uint64_t> posted;
};

enum class Way : unsigned { memory, socket };

Way way_of(const Scene &scene)
{
    return scene.seed % 2 == 0 ? Way::memory : Way::socket;
}

unsigned rounds_of(Way way)
{
    const unsigned rounds = times("VIPL_STRESS_RECEIVES", 20000);
    return way == Way::memory ? rounds : rounds / 4 + 1;
}

void await_told(Way way, Line &line, std::uint64_t round)
{
    if (way == Way::socket) {
        EXPECT_EQ(round, line.receive<std::uint64_t>());
        return;
    }
    const Board &board = shared<Board>();
    const unsigned long long end = now_ms() + 2 * patience();
    for (unsigned turns = 0; board.posted < round; ++turns) {
        if (turns % 64 == 63) { // first at once
            EXPECT(now_ms() < end);
            std::this_thread::yield();
        }
    }
}

void tell(Way way, Line &line, std::uint64_t round)
{
    if (way == Way::socket) {
        line.send(round);
    } else {
        shared<Board>().posted = round;
    }
}

void sender(const Scene &scene, Line &line)
{
    const Way way = way_of(scene);
    const Nic nic;
    Memory memory(nic, 4096);
    const Vi vi(nic);
    REQUIRE_VIP(request_to(nic, scene.name(), vi));
    const Work work = memory.transfer(memory.bytes(8));
    for (std::uint64_t round = 1; round <= rounds_of(way); ++round) {
        std::memcpy(work.buffer.data, &round, sizeof round);
        await_told(way, line, round);
        post_send(vi, work);
        EXPECT(sent(vi) == work.desc);
    }
    line.sync();
}

void race(Where where, Way way)
{
    shared<Board>().posted = 0;
    Scene scene = make_scene();
    scene.seed = static_cast<unsigned>(way);
    Partner partner(where, sender, scene);
    const Nic nic;
    ErrorLog log(nic);
    Memory memory(nic, 4096);
    const Vi vi(nic);
    REQUIRE_VIP(accept_on(nic, scene.name(), vi));
    const Work work = memory.transfer(memory.bytes(8));
    for (std::uint64_t round = 1; round <= rounds_of(way); ++round) {
        work.desc->CS.Length = 8;
        post_recv(vi, work);
        tell(way, partner.line(), round);
        EXPECT(received(vi) == work.desc);
        EXPECT(std::memcmp(work.buffer.data, &round, sizeof round) == 0);
    }
    log.expect_none();
    partner.line().sync();
    partner.finish();
}

} // namespace

TEST_CASE("a receive that the sender knows of is found, in one process", "[receives][inproc]")
{
    race(Where::thread, Way::memory);
}

TEST_CASE("a receive that the sender knows of is found, between processes", "[receives][procs]")
{
    race(Where::process, Way::memory);
}

TEST_CASE("a receive that the sender was told of through a socket is found, in one process",
          "[receives][inproc]")
{
    race(Where::thread, Way::socket);
}

TEST_CASE("a receive that the sender was told of through a socket is found, between processes",
          "[receives][procs]")
{
    race(Where::process, Way::socket);
}
