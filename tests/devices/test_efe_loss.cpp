// SPDX-License-Identifier: MIT
//
// Flows over bad wires: every frame is delivered once, in order, with its contents, whatever the
// wire does to it; and fast enough.
#include <catch2/catch.hpp>

#include <random>

#include "adapters.hpp"

using namespace adapters;

namespace {

const char kEverything[] = "loss=0.2,reorder=0.1,duplicate=0.05,corrupt=0.01,delay=30us,jitter=20us";

/** Loads of any size between functions of all adapters, some of them later than others. */
void random_loads(World &world, std::uint64_t seed)
{
    std::mt19937_64 dice(seed);
    for (unsigned load = 0; load < 12; ++load) {
        Adapter &from = *world.adapters[dice() % world.adapters.size()];
        const Adapter &to = *world.adapters[dice() % world.adapters.size()];
        from.max_payload = static_cast<std::uint32_t>(16 + dice() % 1400);
        from.send(dice() % 4, to, dice() % 4, 1 + dice() % 400);
        world.run_for(dice() % (3 * ms));
    }
}

/** The time in which so many frames of 1,448 bytes arrive. */
std::uint64_t time_for(std::uint64_t frames, const std::string &impair)
{
    World world;
    Settings settings;
    settings.impair = impair;
    Adapter &a = world.add(settings), &b = world.add(settings);
    a.max_payload = 1448;
    const std::uint64_t start = world.now;
    a.send(0, b, 0, frames);
    REQUIRE(world.run_until([&] { return world.is_done(); }, 100 * second));
    REQUIRE(world.wrong() == "");
    return world.now - start;
}

} // namespace

TEST_CASE("a wire that loses, reorders, duplicates and corrupts at once changes nothing", "[efe][loss]")
{
    const std::uint64_t seed = GENERATE(range(1, 25));
    CAPTURE(seed);
    World world;
    Settings settings;
    settings.seed = seed;
    settings.impair = kEverything + std::string(",seed=") + std::to_string(seed);
    world.add(settings);
    world.add(settings);
    if (seed % 2 == 0) {
        world.add(settings);
    }
    random_loads(world, seed);
    REQUIRE(world.run_until([&] { return world.is_done(); }, 60 * second));
    REQUIRE(world.wrong() == "");
    for (const auto &adapter : world.adapters) {
        CHECK(adapter->counted().resent > 0);
        CHECK(adapter->counted().faults[EFE_FAULT_CRC] > 0);
        CHECK(adapter->counted().duplicates > 0);
        CHECK(adapter->counted().died == 0);
        CHECK(adapter->counted().resets_sent == 0);
    }
}

TEST_CASE("goodput with 1 % loss is at least half of that without", "[efe][loss]")
{
    const std::string line = GENERATE("delay=20us", "delay=100us,rate=1G", "delay=1ms,rate=1G",
                                      "delay=500us,rate=10G", "delay=50us,jitter=20us,rate=1G");
    CAPTURE(line);
    const std::uint64_t without = time_for(20000, line), with = time_for(20000, line + ",loss=0.01,seed=3");
    CAPTURE(without, with);
    CHECK(with <= 2 * without);
}
