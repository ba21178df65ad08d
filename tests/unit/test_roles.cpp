// SPDX-License-Identifier: MIT
//
// What becomes of a case of two roles: a failure is told, whatever the other role did.
#include <catch2/catch.hpp>

#include "support/roles.hpp"

using namespace vipl_test;

namespace {

void does_not_apply(Peer &)
{
    throw NotApplicable("not here");
}

void fails(Peer &)
{
    throw Failure("it is wrong");
}

void misses_the_other(Peer &peer)
{
    peer.receive<int>();
}

void passes(Peer &)
{
}

void play(Role server, Role client)
{
    run_two(Setting::one_process, VIP_SERVICE_RELIABLE_DELIVERY, server, client);
}

} // namespace

TEST_CASE("a role that does not apply hides no failure of the other")
{
    REQUIRE_THROWS_WITH(play(does_not_apply, fails), Catch::Contains("[client] it is wrong"));
    REQUIRE_THROWS_WITH(play(fails, does_not_apply), Catch::Contains("[server] it is wrong"));
}

TEST_CASE("a case does not apply if one of its roles does not")
{
    REQUIRE_THROWS_AS(play(does_not_apply, passes), NotApplicable);
    REQUIRE_THROWS_AS(play(passes, does_not_apply), NotApplicable);
    REQUIRE_THROWS_AS(play(does_not_apply, misses_the_other), NotApplicable);
    REQUIRE_NOTHROW(play(passes, passes));
}

TEST_CASE("a role that fails comes before the one that misses it")
{
    REQUIRE_THROWS_WITH(play(misses_the_other, fails), Catch::StartsWith("[client] it is wrong"));
}
