// SPDX-License-Identifier: MIT
//
// Windows: a layer above that has no room stops its own flows and no others; buffers are shared
// fairly; room is told.
#include <catch2/catch.hpp>

#include "adapters.hpp"
#include "frames.hpp"

using namespace adapters;

TEST_CASE("a function that has stopped closes its own windows only", "[efe][window]")
{
    const bool within = GENERATE(false, true);
    CAPTURE(within);
    World world;
    Adapter &a = world.add(), &other = world.add();
    Adapter &b = within ? a : other;
    b.stop(2);
    a.send(0, b, 2, 2000);
    a.send(0, b, 3, 2000);
    a.send(1, b, 2, 2000);
    REQUIRE(world.run_until([&] { return b.stream(3, a, 0).delivered == 2000; }, second));
    CHECK(b.stream(2, a, 0).delivered == 0);
    CHECK(a.info(0, b, 2).peer_window == 0);
    CHECK(a.info(1, b, 2).peer_window == 0);
    CHECK(a.info(0, b, 3).peer_window > 0);
    CHECK(a.stream(0, b, 2).committed <= 2 * EFE_WINDOW_MAX);
    world.run_for(second);
    CHECK(b.stream(2, a, 0).refusals == 1); // it is asked again when it says so, not before
    b.go_on(2);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    CHECK(world.wrong() == "");
    CHECK(a.stream(0, b, 2).deaths.empty());
}

TEST_CASE("a function that stops in between again and again loses nothing", "[efe][window]")
{
    World world;
    Settings settings;
    settings.impair = "loss=0.05,reorder=0.1,delay=20us,seed=5";
    Adapter &a = world.add(settings), &b = world.add(settings);
    a.send(0, b, 2, 50000);
    for (unsigned i = 0; i < 40; ++i) {
        b.stop(2);
        world.run_for(500 * us);
        b.go_on(2);
        world.run_for(100 * us * (i % 5));
    }
    REQUIRE(world.run_until([&] { return world.is_done(); }, 20 * second));
    CHECK(world.wrong() == "");
    CHECK(b.stream(2, a, 0).refusals >= 20);
}

TEST_CASE("a peer that has stopped for longer than a dead one is silent stays alive", "[efe][window]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    b.stop(0);
    a.send(0, b, 0, 1000);
    world.run_for(20 * second);
    CHECK(a.stream(0, b, 0).deaths.empty());
    CHECK(a.counted().probes >= 150); // every 100 ms, and some sooner
    CHECK(a.counted().probes <= 250);
    b.go_on(0);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    CHECK(world.wrong() == "");
}

TEST_CASE("a window that opens is found out even if the frame that says so is lost", "[efe][window]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    b.stop(0);
    a.send(0, b, 0, 1000);
    world.run_for(second);
    const std::uint64_t asked = a.counted().probes;
    bool lost = false;
    world.passes = [&](const Bytes &frame) { return lost || !(lost = frame[5] == a.mac[5]); };
    b.go_on(0);
    const std::uint64_t opened = world.now;
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    CHECK(lost);
    CHECK(world.now - opened < 150 * ms); // the next probe comes within 100
    CHECK(a.counted().probes > asked);
    CHECK(world.wrong() == "");
}

TEST_CASE("an old frame does not close a window that was opened since", "[efe][window]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    std::vector<std::pair<std::uint64_t, Bytes>> frames;
    world.captured = &frames;
    b.stop(0);
    a.send(0, b, 0, 100);
    world.run_for(20 * ms);
    b.go_on(0);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    const std::uint32_t open = a.info(0, b, 0).peer_window;
    unsigned closed = 0;
    for (const auto &frame : frames) {
        const efe_header header = header_of(frame.second);
        if (header.type == EFE_ACK && header.window == 0) {
            a.receive(frame.second);
            ++closed;
        }
    }
    CHECK(closed > 0);
    CHECK(a.info(0, b, 0).peer_window == open);
}

TEST_CASE("flows that have stopped leave buffers to the others", "[efe][window]")
{
    World world;
    Settings settings;
    settings.frames = 64;
    settings.functions = 32;
    Adapter &a = world.add(settings), &b = world.add(settings);
    for (std::uint16_t fn = 1; fn < 31; ++fn) {
        b.stop(fn);
        a.send(fn, b, fn, 100);
    }
    world.run_for(second);
    a.send(0, b, 0, 1000);
    REQUIRE(world.run_until([&] { return b.stream(0, a, 0).delivered == 1000; }, 10 * second));
    for (std::uint16_t fn = 1; fn < 31; ++fn) {
        b.go_on(fn);
    }
    REQUIRE(world.run_until([&] { return world.is_done(); }, 10 * second));
    CHECK(world.wrong() == "");
}

TEST_CASE("flows get buffers in turn when there are few", "[efe][window]")
{
    World world;
    Settings settings;
    settings.frames = 32;
    settings.functions = 16;
    settings.impair = "delay=100us";
    Adapter &a = world.add(settings), &b = world.add(settings);
    for (std::uint16_t fn = 0; fn < 16; ++fn) {
        a.send(fn, b, fn, 100000);
    }
    world.run_for(100 * ms);
    std::uint64_t least = UINT64_MAX, most = 0;
    for (std::uint16_t fn = 0; fn < 16; ++fn) {
        least = std::min(least, b.stream(fn, a, fn).delivered);
        most = std::max(most, b.stream(fn, a, fn).delivered);
    }
    CHECK(least > 100);
    CHECK(least >= most * 3 / 4);
    CHECK(world.wrong() == "");
}

TEST_CASE("a buffer that is given back unused goes to a flow that waits", "[efe][window]")
{
    World world;
    Settings settings;
    settings.frames = 16; // eight to send
    settings.functions = 8;
    Adapter &a = world.add(settings), &b = world.add(settings);
    b.absent = true;
    a.send(0, b, 0, 4);
    a.send(1, b, 0, 2);
    const std::uint32_t undecided = a.open(2, b, 0);
    REQUIRE(efe_reserve(&a.efe, undecided) != nullptr);
    a.send(3, b, 0, 1);
    REQUIRE(a.stream(3, b, 0).committed == 1);
    a.send(4, b, 0, 1);
    REQUIRE(a.stream(4, b, 0).committed == 0);
    efe_cancel(&a.efe, undecided);
    CHECK(a.deadline() <= world.now);
    a.send(5, b, 0, 1);
    CHECK(a.stream(5, b, 0).committed == 0); // another waits already
    a.run();
    CHECK(a.stream(4, b, 0).committed == 1);
}

TEST_CASE("no more than a window is outstanding, and what is reserved twice is one buffer", "[efe][window]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    b.absent = true;
    a.send(0, b, 0, 5000);
    CHECK(a.stream(0, b, 0).committed == 16); // as long as the peer has said nothing
    b.absent = false;
    world.run_for(5 * ms);
    b.absent = true;
    world.run_for(10 * ms);
    CHECK(a.info(0, b, 0).outstanding <= EFE_WINDOW_MAX);
    const std::uint32_t flow = a.open(1, b, 1);
    std::uint8_t *buffer = efe_reserve(&a.efe, flow);
    REQUIRE(buffer != nullptr);
    CHECK(efe_reserve(&a.efe, flow) == buffer);
}

TEST_CASE("a flow that has room does not wait for those that have none", "[efe][window]")
{
    World world;
    Settings settings;
    settings.frames = 64;
    settings.functions = 32;
    Adapter &a = world.add(settings), &b = world.add(settings);
    for (std::uint16_t fn = 1; fn < 31; ++fn) {
        b.stop(fn);
        a.send(fn, b, fn, 100);
    }
    world.run_for(second + 5 * ms);
    for (unsigned i = 0; i < 10; ++i) {
        a.send(0, b, 0, 5);
        world.run_for(ms);
        CHECK(b.stream(0, a, 0).delivered == 5 * (i + 1));
    }
}
