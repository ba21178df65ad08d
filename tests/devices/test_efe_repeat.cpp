// SPDX-License-Identifier: MIT
//
// The same seed gives the same frames at the same times, on every machine, also when the areas were
// copied to another place meanwhile.
#include <catch2/catch.hpp>

#include "adapters.hpp"

using namespace adapters;

namespace {

Settings settings_of(std::uint64_t seed)
{
    Settings settings;
    settings.seed = seed;
    settings.impair =
        "loss=0.1,reorder=0.1,duplicate=0.05,corrupt=0.02,delay=40us,jitter=15us,rate=2G,seed=" +
        std::to_string(seed);
    return settings;
}

/** All that can happen to flows: loads in all directions, a function that stops, one that is
 * reset. */
void begin(World &world, std::uint64_t seed)
{
    for (unsigned i = 0; i < 3; ++i) {
        world.add(settings_of(seed));
    }
    Adapter &a = *world.adapters[0], &b = *world.adapters[1], &c = *world.adapters[2];
    a.send(0, b, 1, 700);
    a.send(1, a, 0, 300);
    b.send(1, a, 0, 300);
    c.send(2, b, 1, 500);
    c.send(2, a, 3, 500);
    a.stop(3);
}

void middle(World &world)
{
    world.adapters[0]->go_on(3);
    world.adapters[2]->reset(2);
    world.adapters[0]->send(2, *world.adapters[2], 0, 400);
}

std::vector<std::uint32_t> traces(const World &world)
{
    std::vector<std::uint32_t> all;
    for (const auto &adapter : world.adapters) {
        all.push_back(adapter->trace);
    }
    return all;
}

} // namespace

TEST_CASE("a seed's frames are known", "[efe][repeat]")
{
    World world;
    begin(world, 42);
    world.run_for(8 * ms);
    middle(world);
    world.run_for(6 * second);
    CHECK(world.wrong() == "");
    // A change of what EFE sends, or when, changes these; on big-endian machines they are the same.
    CHECK(world.adapters[0]->traced == 3094);
    CHECK(traces(world) == std::vector<std::uint32_t>{0x7b3cfb6a, 0x5368f2a8, 0xb28e6b04});
}

TEST_CASE("another seed's frames are others", "[efe][repeat]")
{
    World world, other;
    begin(world, 1);
    begin(other, 2);
    world.run_for(ms);
    other.run_for(ms);
    CHECK(traces(world) != traces(other));
}

TEST_CASE("a copy of the areas goes on as they do", "[efe][repeat]")
{
    const std::uint64_t time = GENERATE(0, 333 * us, 2 * ms, 8 * ms, 40 * ms);
    CAPTURE(time);
    World world, copy;
    begin(world, 7);
    begin(copy, 9); // of another past, which must not matter
    copy.run_for(3 * ms);
    world.run_for(time);
    copy.become(world);
    for (World *one : {&world, &copy}) {
        middle(*one);
        one->run_for(6 * second);
        CHECK(one->wrong() == "");
    }
    CHECK(traces(world) == traces(copy));
    CHECK(world.adapters[0]->traced == copy.adapters[0]->traced);
}
