// SPDX-License-Identifier: MIT
//
// How flows begin again and end: silence, resets, lost and late frames of former lives, tables that
// are full, numbers that wrap.
#include <algorithm>
#include <catch2/catch.hpp>

#include "adapters.hpp"
#include "frames.hpp"

using namespace adapters;

namespace {

bool is_reset(const Bytes &frame)
{
    return (frame[14] & 0x0F) == EFE_RESET;
}

using Deaths = std::vector<efe_death>;

} // namespace

TEST_CASE("a flow whose peer has vanished dies after five seconds, and not before", "[efe][end]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.send(0, b, 0, 100);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    world.run_for(3 * second);
    b.absent = true;
    const std::uint64_t from = world.now;
    a.send(0, b, 0, 10);
    const bool more_later = GENERATE(false, true);
    if (more_later) {
        world.run_for(4 * second);
        a.send(0, b, 0, 10); // that the program goes on says nothing about the peer
    }
    Stream &stream = a.stream(0, b, 0);
    REQUIRE(world.run_until([&] { return !stream.deaths.empty(); }, 10 * second));
    CHECK(stream.deaths == Deaths{EFE_DEAD_SILENT});
    CHECK(stream.died_at[0] == from + 5 * second);
    CHECK(a.counted().timeouts >= 40); // at most every 100 ms
    CHECK(a.counted().timeouts <= 60);
}

TEST_CASE("a flow lives as long as anything valid comes within five seconds", "[efe][end]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.send(0, b, 0, 100);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    a.send(0, b, 0, 1000);
    // The wire works for a hundredth of the time.
    for (unsigned i = 0; i < 6; ++i) {
        b.absent = true;
        world.run_for(4850 * ms);
        b.absent = false;
        world.run_for(110 * ms);
        b.absent = true;
        a.send(0, b, 0, 20000);
    }
    CHECK(a.stream(0, b, 0).deaths.empty());
    b.absent = false;
    REQUIRE(world.run_until([&] { return world.is_done(); }, 5 * second));
    CHECK(world.wrong() == "");
}

TEST_CASE("an adapter that stood still itself takes none of that time for its peer's silence", "[efe][end]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.send(0, b, 0, 100);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    b.absent = true;
    a.send(0, b, 0, 10);
    world.run_for(second);
    // The host of `a` is suspended twice: no timer of the adapter ends in time.
    for (unsigned i = 0; i < 2; ++i) {
        world.now += 10 * second;
        world.run_for(1500 * ms);
        CHECK(a.stream(0, b, 0).deaths.empty());
    }
    const bool answers = GENERATE(false, true);
    if (answers) {
        b.absent = false;
        REQUIRE(world.run_until([&] { return world.is_done(); }, second));
        CHECK(world.wrong() == "");
    } else {
        REQUIRE(world.run_until([&] { return !a.stream(0, b, 0).deaths.empty(); }, 2 * second));
        CHECK(a.stream(0, b, 0).deaths == Deaths{EFE_DEAD_SILENT});
    }
}

TEST_CASE("an idle flow has nothing to do, and its peer may vanish", "[efe][end]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.send(0, b, 0, 100);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    world.run_for(second);
    CHECK(a.deadline() == UINT64_MAX);
    CHECK(b.deadline() == UINT64_MAX);
    b.absent = true;
    world.run_for(20 * second);
    CHECK(a.stream(0, b, 0).deaths.empty());
}

TEST_CASE("a function's reset ends its flows at both ends, and no others", "[efe][end]")
{
    const bool within = GENERATE(false, true);
    CAPTURE(within);
    World world;
    Settings settings;
    settings.impair = "delay=50us";
    Adapter &a = world.add(settings), &other = world.add(settings);
    Adapter &b = within ? a : other;
    a.send(1, b, 2, 5000);
    a.send(1, b, 3, 5000);
    b.send(3, a, 0, 5000);
    world.run_for(400 * us);
    REQUIRE(b.stream(2, a, 1).delivered > 0);
    a.reset(1);
    CHECK(a.stream(1, b, 2).deaths == Deaths{EFE_DEAD_LOCAL});
    CHECK(a.stream(1, b, 3).deaths == Deaths{EFE_DEAD_LOCAL});
    world.run_for(ms);
    CHECK(b.stream(2, a, 1).deaths == Deaths{EFE_DEAD_RESET});
    CHECK(b.stream(3, a, 1).deaths == Deaths{EFE_DEAD_RESET});
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    CHECK(b.stream(3, a, 0).deaths.empty());
    CHECK(a.stream(0, b, 3).delivered == 5000);
    CHECK(a.open(1, b, 2) == EFE_NO_FLOW); // the function is disabled
    efe_function_enable(&a.efe, 1);
    a.send(1, b, 2, 500);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    CHECK(b.stream(2, a, 1).delivered == 500);
    CHECK(world.wrong() == "");
}

namespace {

/** b's function 2 has stopped; a's function 1 has sent it as many frames as it keeps, which are
 * acknowledged. Returns how many. */
std::uint64_t fill(World &world, Adapter &a, Adapter &b)
{
    b.stop(2);
    a.send(1, b, 2, 100);
    const Stream &sent = a.stream(1, b, 2);
    std::uint64_t before = ~UINT64_C(0);
    while (sent.acknowledged != before) {
        before = sent.acknowledged;
        world.run_for(10 * ms);
    }
    efe_hold(&b.efe, b.open(2, a, 1));
    return before;
}

} // namespace

TEST_CASE("what was acknowledged is delivered after its sender's reset, and the flow ends then", "[efe][end]")
{
    World world;
    Adapter &a = world.add(), &other = world.add();
    Adapter &b = GENERATE(false, true) ? a : other;
    const std::uint64_t told = fill(world, a, b);
    REQUIRE(told > 10);
    const std::uint32_t flow = b.open(2, a, 1);
    a.reset(1);
    world.run_for(second);
    Stream &stream = b.stream(2, a, 1);
    CHECK(stream.deaths.empty());
    CHECK(stream.delivered == 0);
    CHECK(efe_reserve(&b.efe, flow) == nullptr); // there is nobody to send to
    b.stopped.clear();
    efe_resume(&b.efe, world.now, flow);
    CHECK(stream.bytes > 0);
    CHECK(stream.deaths == Deaths{EFE_DEAD_RESET});
    CHECK(b.counted().delivered >= told);
    CHECK(world.wrong() == "");
}

TEST_CASE("a function's next life has a flow of its own beside what is left of the one before", "[efe][end]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    const std::uint64_t told = fill(world, a, b);
    const std::uint32_t left = b.open(2, a, 1);
    a.reset(1);
    world.run_for(10 * ms);
    efe_function_enable(&a.efe, 1);
    const std::uint32_t again = b.open(2, a, 1);
    CHECK(again != left);
    b.judges = [](const Ends &) { return false; }; // the streams of both have the same name
    b.stopped.clear();
    a.send(1, b, 2, 50);
    REQUIRE(world.run_until([&] { return a.stream(1, b, 2).acknowledged == 50; }, second));
    CHECK(b.stream(2, a, 1).delivered == 50);
    CHECK(b.stream(2, a, 1).deaths.empty());
    efe_resume(&b.efe, world.now, left);
    CHECK(b.counted().delivered == told + 50);
    CHECK(b.stream(2, a, 1).deaths == Deaths{EFE_DEAD_RESET});
    CHECK(b.open(2, a, 1) == again);
}

TEST_CASE("what was acknowledged is delivered after its sender has fallen silent, and its peer is told so",
          "[efe][end]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    const std::uint64_t told = fill(world, a, b);
    const std::uint32_t flow = b.open(2, a, 1);
    a.absent = true;
    b.send(2, a, 1, 1);
    const bool before_the_last_reset = GENERATE(false, true);
    world.run_for(5 * second + (before_the_last_reset ? 10 * ms : second));
    CHECK(b.counted().died == 1);
    CHECK(b.counted().resets_sent == (before_the_last_reset ? 2 : 6));
    CHECK(b.stream(2, a, 1).deaths.empty());
    b.stopped.clear();
    efe_resume(&b.efe, world.now, flow);
    CHECK(b.stream(2, a, 1).deaths == Deaths{EFE_DEAD_SILENT});
    world.run_for(second);
    CHECK(b.counted().delivered == told);
    CHECK(b.counted().resets_sent == 6);
    world.run_for(20 * second);
    CHECK(b.deadline() == UINT64_MAX);
    CHECK(world.wrong() == "");
}

TEST_CASE("frames behind a gap end with their sender", "[efe][end]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    b.stop(2);
    unsigned data = 0;
    world.passes = [&](const Bytes &frame) { return (frame[14] & 0x0F) > EFE_MESSAGE_ACK || ++data != 6; };
    a.send(1, b, 2, 10);
    world.run_for(100 * us);
    efe_hold(&b.efe, b.open(2, a, 1));
    REQUIRE(b.info(2, a, 1).kept == 9);
    const std::uint32_t flow = b.open(2, a, 1);
    a.reset(1);
    world.run_for(ms);
    b.stopped.clear();
    efe_resume(&b.efe, world.now, flow);
    CHECK(b.counted().delivered == 5);
    CHECK(b.stream(2, a, 1).deaths == Deaths{EFE_DEAD_RESET});
}

TEST_CASE("a function's own reset ends what is left of its flows, and all buffers come back", "[efe][end]")
{
    World world;
    Settings settings;
    settings.flows = 3;
    settings.frames = 64;
    Adapter &a = world.add(settings), &b = world.add(settings);
    std::uint64_t first = 0;
    for (unsigned i = 0; i < 20; ++i) {
        const std::uint64_t told = fill(world, a, b);
        first = i == 0 ? told : first;
        CHECK(told == first);
        a.reset(1);
        world.run_for(second);
        CHECK(b.stream(2, a, 1).deaths.empty());
        b.reset(2);
        CHECK(b.stream(2, a, 1).deaths == Deaths{EFE_DEAD_LOCAL});
        b.stream(2, a, 1).deaths.clear();
        a.stream(1, b, 2) = Stream();
        efe_function_enable(&a.efe, 1);
        efe_function_enable(&b.efe, 2);
        b.stopped.clear();
    }
    CHECK(b.counted().delivered == 0);
    CHECK(b.counted().no_flow == 0);
}

TEST_CASE("a reset that is lost is repeated", "[efe][end]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.send(0, b, 0, 100);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    unsigned resets = 0;
    world.passes = [&](const Bytes &frame) { return !is_reset(frame) || ++resets > 5; };
    a.reset(0);
    world.run_for(second);
    CHECK(b.stream(0, a, 0).deaths == Deaths{EFE_DEAD_RESET});
    CHECK(resets == 6);
    world.run_for(20 * second);
    CHECK(resets == 6);
}

TEST_CASE("a peer that was told of no reset finds out by its next frame", "[efe][end]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.send(0, b, 0, 1000);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    b.absent = true;
    a.reset(0);
    world.run_for(second);
    b.absent = false;
    const bool alive_again = GENERATE(false, true);
    if (alive_again) {
        efe_function_enable(&a.efe, 0);
    }
    b.send(0, a, 0, 1);
    world.run_for(10 * ms);
    CHECK(b.stream(0, a, 0).deaths == Deaths{EFE_DEAD_RESET});
    CHECK(a.stream(0, b, 0).delivered == 0);
}

TEST_CASE("an adapter that begins again ends its peers' old flows and gets new ones", "[efe][end]")
{
    const bool both = GENERATE(false, true); // the peer has something to send as well
    CAPTURE(both);
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.send(0, b, 0, 1000);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    a.restart(77);
    if (both) {
        b.send(0, a, 0, 10);
    }
    a.send(0, b, 0, 500);
    REQUIRE(world.run_until([&] { return !b.stream(0, a, 0).deaths.empty(); }, second));
    CHECK(b.stream(0, a, 0).deaths == Deaths{EFE_DEAD_RESET});
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    CHECK(b.stream(0, a, 0).delivered == 500);
    CHECK(a.stream(0, b, 0).deaths.empty());
    CHECK(world.wrong() == "");
}

TEST_CASE("frames of a former life that come late do nothing", "[efe][end]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    std::vector<std::pair<std::uint64_t, Bytes>> old;
    world.captured = &old;
    a.send(0, b, 0, 300);
    b.send(0, a, 0, 300);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    a.reset(0);
    world.run_for(second);
    world.captured = nullptr;
    efe_function_enable(&a.efe, 0);
    a.send(0, b, 0, 100);
    b.send(0, a, 0, 100);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    const std::uint64_t deaths = b.stream(0, a, 0).deaths.size();
    REQUIRE(old.size() > 300);
    for (const auto &frame : old) {
        (frame.second[5] == a.mac[5] ? a : b).receive(frame.second);
    }
    world.run_for(second);
    CHECK(b.stream(0, a, 0).deaths.size() == deaths);
    CHECK(a.stream(0, b, 0).delivered == 100);
    CHECK(b.stream(0, a, 0).delivered == 100);
    a.send(0, b, 0, 100);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    CHECK(world.wrong() == "");
}

TEST_CASE("both ends may reset at once", "[efe][end]")
{
    World world;
    Settings settings;
    settings.impair = "delay=50us,loss=0.2,seed=3";
    Adapter &a = world.add(settings), &b = world.add(settings);
    for (unsigned round = 0; round < 20; ++round) {
        CAPTURE(round);
        a.send(0, b, 0, 200);
        b.send(0, a, 0, 200);
        world.run_for(round * 20 * us);
        a.reset(0);
        if (round % 2 == 0) {
            b.reset(0);
        }
        world.run_for(second);
        efe_function_enable(&a.efe, 0);
        efe_function_enable(&b.efe, 0);
        // What the layers above had to say was of the former life.
        for (Adapter *one : {&a, &b}) {
            one->streams.clear();
            one->wrong.clear();
        }
        a.send(0, b, 0, 50);
        REQUIRE(world.run_until([&] { return world.is_done(); }, second));
        CHECK(world.wrong() == "");
    }
}

TEST_CASE("whoever calls a function that is not there is told so", "[efe][end]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    const std::uint16_t fn = GENERATE(1, 4, 5000); // disabled, too great, far too great
    b.reset(1);
    a.send(0, b, fn, 10);
    world.run_for(ms);
    CHECK(a.stream(0, b, fn).deaths == Deaths{EFE_DEAD_RESET});
    CHECK(b.counted().no_function > 0);
    a.send(0, b, EFE_ADAPTER, 10);
    REQUIRE(world.run_until([&] { return b.stream(EFE_ADAPTER, a, 0).delivered == 10; }, second));
}

TEST_CASE("idle flows give way, those in use do not", "[efe][end]")
{
    World world;
    Settings settings;
    settings.flows = 4;
    settings.functions = 200;
    Adapter &a = world.add(settings), &b = world.add(settings);
    const std::uint32_t held = a.open(0, b, 0);
    efe_hold(&a.efe, held);
    for (std::uint16_t fn = 1; fn < 200; ++fn) {
        CAPTURE(fn);
        a.send(fn, b, fn, 3);
        REQUIRE(world.run_until([&] { return a.stream(fn, b, fn).acknowledged == 3; }, second));
        world.run_for(ms);
    }
    CHECK(a.counted().reclaimed > 100);
    CHECK(a.open(0, b, 0) == held);
    efe_flow_info info = a.info(0, b, 0);
    CHECK(info.users == 1);
    CHECK(a.stream(0, b, 0).deaths.empty());
    std::vector<std::uint32_t> flows;
    for (std::uint16_t fn = 1; fn < 4; ++fn) {
        flows.push_back(a.open(fn, b, fn));
        REQUIRE(flows.back() != EFE_NO_FLOW);
        efe_hold(&a.efe, flows.back());
    }
    CHECK(a.open(4, b, 4) == EFE_NO_FLOW);
    CHECK(a.counted().no_flow == 1);
    efe_release(&a.efe, flows[1]);
    CHECK(a.open(4, b, 4) == flows[1]);
}

TEST_CASE("a reset ends the peer's flow even if only one of them has heard from the other", "[efe][end]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    const bool hears = GENERATE(false, true); // the one that is reset
    world.passes = [&](const Bytes &frame) { return is_reset(frame) || frame[11] == (hears ? b : a).mac[5]; };
    a.send(0, b, 0, 5);
    b.send(0, a, 0, 5);
    world.run_for(ms);
    a.reset(0);
    world.run_for(100 * us); // sooner than b sends anything again, which would be answered
    CHECK(b.stream(0, a, 0).deaths == Deaths{EFE_DEAD_RESET});
}

TEST_CASE("the peer of a flow that gave way is told", "[efe][end]")
{
    World world;
    Settings one;
    one.flows = 1;
    Adapter &a = world.add(one), &b = world.add();
    a.send(0, b, 0, 5);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    world.run_for(ms);
    CHECK(a.open(1, b, 1) != EFE_NO_FLOW);
    world.run_for(ms);
    CHECK(b.stream(0, a, 0).deaths == Deaths{EFE_DEAD_RESET});
}

TEST_CASE("the place of a flow that has ended is used before that of an idle one", "[efe][end]")
{
    World world;
    Settings two;
    two.flows = 2;
    Adapter &a = world.add(two), &b = world.add();
    const std::uint32_t idle = a.open(0, b, 0), ended = a.open(1, b, 1);
    a.reset(1);
    CHECK(a.open(2, b, 2) == ended);
    CHECK(a.open(0, b, 0) == idle);
    CHECK(a.counted().reclaimed == 0);
}

TEST_CASE("a flow that ends while it waits for its turn, for a buffer or for the switch leaves no trace",
          "[efe][end]")
{
    World world;
    Settings settings;
    settings.flows = 4;
    settings.frames = 16;
    settings.switch_frames = 16;
    Adapter &a = world.add(settings);
    for (unsigned round = 0; round < 50; ++round) {
        CAPTURE(round);
        bool full = true;
        a.refuses = [&](const Bytes &) { return full; };
        a.send(0, a, 1, 100);
        a.send(2, a, 1, 100);
        a.reset(round % 3 == 0 ? 1 : 0);
        if (round % 2 == 0) {
            a.reset(2);
        }
        for (const std::uint16_t fn : {0, 1, 2}) {
            efe_function_enable(&a.efe, fn);
        }
        full = round % 5 == 0;
        a.send(0, a, 1, 10);
        world.run_for(ms);
        full = false;
        efe_unblock(&a.efe, world.now);
        world.run_for(200 * ms);
        for (const std::uint16_t fn : {0, 1, 2}) {
            a.reset(fn);
            efe_function_enable(&a.efe, fn);
        }
        world.run_for(200 * ms);
        a.streams.clear();
        a.wrong.clear();
        a.send(0, a, 1, 100);
        a.send(2, a, 1, 100);
        REQUIRE(world.run_until([&] { return world.is_done(); }, second));
        CHECK(world.wrong() == "");
        for (const std::uint16_t fn : {0, 1, 2}) {
            a.reset(fn);
            efe_function_enable(&a.efe, fn);
        }
        world.run_for(200 * ms);
        a.streams.clear();
    }
}

TEST_CASE("numbers of frames wrap around", "[efe][end]")
{
    World world;
    Settings settings;
    settings.first_epoch = 0xFFFFFF80;
    settings.impair = "loss=0.1,reorder=0.1,delay=30us,seed=8";
    Adapter &a = world.add(settings), &b = world.add(settings);
    a.send(0, b, 0, 1000);
    b.send(0, a, 0, 1000);
    b.stop(0);
    world.run_for(2 * ms);
    b.go_on(0);
    REQUIRE(world.run_until([&] { return world.is_done(); }, 10 * second));
    CHECK(world.wrong() == "");
    CHECK(a.counted().died == 0);
}

TEST_CASE("the clock of frames wraps around", "[efe][end]")
{
    World world;
    world.now = (UINT64_C(0x100000000) * 1000) - 3 * ms;
    Settings settings;
    settings.impair = "loss=0.05,delay=30us,rate=1G,seed=8";
    Adapter &a = world.add(settings), &b = world.add(settings);
    a.send(0, b, 0, 50000);
    b.stop(0);
    world.run_for(2900 * us);
    b.go_on(0);
    REQUIRE(world.run_until([&] { return world.is_done(); }, 10 * second));
    CHECK(world.now > UINT64_C(0x100000000) * 1000);
    CHECK(world.wrong() == "");
    world.run_for(UINT64_C(3000) *
                  second); // so long that the next window's time looks older than the last one's
    a.send(0, b, 0, 1000);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    CHECK(a.info(0, b, 0).rtt_ns < ms);
}

TEST_CASE("what a flow's end leaves of its path's window goes to the others", "[efe][end]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    b.judges = [](const Ends &) { return false; };
    b.absent = true;
    a.commit(a.open(0, b, 0), 16, 1400);
    a.commit(a.open(1, b, 1), 16, 1400); // more than the window of a path that begins
    REQUIRE(a.info(1, b, 1).in_flight + 1400 > a.info(1, b, 1).congestion);
    a.commit(a.open(2, b, 2), 1, 1400);
    b.absent = false;
    a.reset(0);
    a.reset(1);
    world.run_for(ms);
    CHECK(b.stream(2, a, 2).delivered == 1);
}

TEST_CASE("a flow that gives way leaves nothing behind in its path's turns", "[efe][end]")
{
    World world;
    Settings settings;
    settings.flows = 3;
    Adapter &a = world.add(settings), &b = world.add(), &c = world.add();
    b.absent = true;
    std::vector<std::pair<std::uint64_t, Bytes>> frames;
    world.captured = &frames;
    const auto answer = [&](std::uint16_t fn, std::uint32_t next_expected,
                            const std::vector<unsigned> &bits) {
        const auto mine = std::find_if(frames.begin(), frames.end(), [&](const auto &frame) {
            return header_of(frame.second).from_fn == fn;
        });
        efe_header header = header_of(mine->second);
        std::swap_ranges(header.to_mac, header.to_mac + 6, header.from_mac);
        header.type = EFE_ACK;
        header.flags = 0;
        header.payload_bytes = EFE_SACK_BYTES;
        header.next_expected = header.epoch + next_expected;
        header.epoch = header.sequence = 1000;
        header.window = 256;
        header.echo = header.sent;
        Bytes sack(EFE_SACK_BYTES);
        for (const unsigned bit : bits) {
            efe_sack_set(sack.data(), bit);
        }
        a.receive(frame_of(header, sack));
    };
    a.judges = b.judges = c.judges = [](const Ends &) { return false; };
    a.commit(a.open(0, b, 0), 4, 1);
    answer(0, 0, {1, 2}); // nothing waited for the window up to here: it does not grow
    a.commit(a.open(1, b, 1), 16, 1448);
    a.commit(a.open(2, b, 2), 1, 1448); // has to wait for the path's window ...
    answer(0, 0, {1, 2, 3});            // ... and behind it the first flow, one of whose frames is lost
    a.streams.clear();
    a.wrong.clear();
    answer(0, 4, {});                            // it had arrived: the flow has nothing to do any more ...
    const std::uint32_t other = a.open(0, c, 0); // ... and gives way
    REQUIRE(a.counted().reclaimed == 1);
    answer(1, 16, {});
    a.commit(other, 1, 1);
    world.run_for(ms);
    CHECK(c.stream(0, a, 0).delivered == 1);
}

TEST_CASE("a flow that owes an acknowledgment does not give way", "[efe][end]")
{
    World world;
    Settings settings;
    settings.flows = 1;
    Adapter &a = world.add(settings), &b = world.add(), &c = world.add();
    a.judges = [](const Ends &) { return false; };
    b.commit(b.open(0, a, 0), 1, 8);
    world.run_for(10 * us);
    REQUIRE(a.stream(0, b, 0).delivered == 1);
    CHECK(a.open(0, c, 0) == EFE_NO_FLOW);
    world.run_for(200 * us);
    CHECK(a.open(0, c, 0) != EFE_NO_FLOW);
    CHECK(b.info(0, a, 0).outstanding == 0);
}

TEST_CASE("a buffer that is reserved keeps its flow, and comes back with its end", "[efe][end]")
{
    World world;
    Settings settings;
    settings.flows = 1;
    settings.frames = 16;
    Adapter &a = world.add(settings), &b = world.add(), &c = world.add();
    for (unsigned i = 0; i < 20; ++i) {
        const std::uint32_t flow = a.open(0, b, 0);
        REQUIRE(efe_reserve(&a.efe, flow) != nullptr);
        CHECK(a.open(0, c, 0) == EFE_NO_FLOW);
        a.reset(0);
        efe_function_enable(&a.efe, 0);
    }
    CHECK(a.open(0, c, 0) != EFE_NO_FLOW);
}
