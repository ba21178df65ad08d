// SPDX-License-Identifier: MIT
//
// Roles that are played by a child process: what crosses between the two, and how a child's end is
// told. The device takes no part.
#include <catch2/catch.hpp>

#include <cstdlib>

#include "support/roles.hpp"
#include "support/system.hpp"

using namespace vipl_test;

namespace {

void play(Role server, Role client, const char *environment = "")
{
    run_two(Setting::two_processes, VIP_SERVICE_RELIABLE_DELIVERY, server, client, environment);
}

void syncs(Peer &peer)
{
    peer.sync();
}

} // namespace

TEST_CASE("a child is another process, which has its setting, and values cross", "[windows]")
{
    REQUIRE_NOTHROW(play(
        [](Peer &peer) {
            EXPECT(std::getenv("A_CHILDS_SETTING") == nullptr);
            peer.send(std::string::size_type{77});
            EXPECT_EQ(78u, peer.receive<std::string::size_type>());
            peer.sync();
        },
        [](Peer &peer) {
            EXPECT(peer.in_other_process());
            EXPECT_EQ(std::string("yes"), std::string(std::getenv("A_CHILDS_SETTING")));
            peer.send(peer.receive<std::string::size_type>() + 1);
            peer.sync();
        },
        "A_CHILDS_SETTING=yes"));
}

TEST_CASE("what goes wrong in a child is told", "[windows]")
{
    REQUIRE_THROWS_WITH(play(syncs, [](Peer &) { throw Failure("it is wrong"); }),
                        Catch::Contains("[client] it is wrong"));
    REQUIRE_THROWS_AS(play(syncs, [](Peer &) { throw NotApplicable("not here"); }), NotApplicable);
}

TEST_CASE("a child's end is as announced, or is told", "[windows]")
{
    const Role leaves = [](Peer &) {};
    REQUIRE_NOTHROW(play(leaves, [](Peer &peer) {
        peer.will_exit(7);
        std::exit(7);
    }));
    REQUIRE_NOTHROW(play(leaves, [](Peer &peer) { peer.die(); }));
    REQUIRE_THROWS_WITH(play(leaves,
                             [](Peer &peer) {
                                 peer.will_exit(7);
                                 std::exit(8);
                             }),
                        Catch::Contains("exited with status 8, not as it had announced"));
    REQUIRE_THROWS_WITH(play(leaves, [](Peer &) { kill_this_process(); }),
                        Catch::Contains("was killed without a report"));
}
