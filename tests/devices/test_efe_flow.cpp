// SPDX-License-Identifier: MIT
//
// Flows over good wires: between adapters, within one, of a function to itself; numbers that wrap
// around; tables that are full.
#include <catch2/catch.hpp>

#include "adapters.hpp"

using namespace adapters;

TEST_CASE("frames of a flow are delivered and acknowledged in order, both ways at once", "[efe]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.send(1, b, 2, 1000);
    b.send(2, a, 1, 500);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    REQUIRE(world.wrong() == "");
    CHECK(b.stream(2, a, 1).delivered == 1000);
    CHECK(a.stream(1, b, 2).delivered == 500);
    CHECK(a.counted().resent == 0);
    CHECK(a.counted().duplicates + b.counted().duplicates == 0);
}

TEST_CASE("functions of one adapter reach each other through its switch", "[efe]")
{
    World world;
    Settings settings;
    settings.switch_frames = 16; // it is full most of the time
    Adapter &a = world.add(settings);
    a.send(0, a, 1, 3000);
    a.send(1, a, 0, 3000);
    a.send(2, a, 1, 3000);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    REQUIRE(world.wrong() == "");
    CHECK(rnic_switch_counted(&a.sw)->refused > 0);
    CHECK(a.counted().resent == 0);
}

TEST_CASE("a function reaches itself", "[efe]")
{
    World world;
    Adapter &a = world.add();
    a.send(3, a, 3, 1000);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    REQUIRE(world.wrong() == "");
}
