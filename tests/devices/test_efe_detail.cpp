// SPDX-License-Identifier: MIT
//
// Single rules of EFE, each by frames that are made or withheld on purpose.
#include <catch2/catch.hpp>

#include "adapters.hpp"
#include "frames.hpp"

using namespace adapters;

namespace {

unsigned type_of(const Bytes &frame)
{
    return frame[14] & 0x0F;
}

/** An adapter that has sent ten frames to a peer whose answers the test makes. */
struct Sender {
    Sender()
    {
        b.absent = true;
        world.captured = &frames;
        a.send(0, b, 0, 10);
        first = header_of(frames.at(0).second);
    }
    void answer(std::uint32_t next_expected, const std::vector<unsigned> &bits)
    {
        efe_header header{};
        std::copy(a.mac.begin(), a.mac.end(), header.to_mac);
        std::copy(b.mac.begin(), b.mac.end(), header.from_mac);
        header.type = EFE_ACK;
        header.payload_bytes = EFE_SACK_BYTES;
        header.epoch = header.sequence = 1000;
        header.next_expected = first.epoch + next_expected;
        header.window = 256;
        header.sent = static_cast<std::uint32_t>(world.now / us);
        header.echo = header.sent;
        Bytes sack(EFE_SACK_BYTES);
        for (const unsigned bit : bits) {
            efe_sack_set(sack.data(), bit);
        }
        frames.clear();
        a.receive(frame_of(header, sack));
    }
    /** The numbers, from the epoch on, of what a has sent since. */
    std::vector<std::uint32_t> sent() const
    {
        std::vector<std::uint32_t> numbers;
        for (const auto &frame : frames) {
            numbers.push_back(header_of(frame.second).sequence - first.epoch);
        }
        return numbers;
    }

    World world;
    Adapter &a = world.add(), &b = world.add();
    std::vector<std::pair<std::uint64_t, Bytes>> frames;
    efe_header first{};
};

using Numbers = std::vector<std::uint32_t>;

} // namespace

TEST_CASE("a frame is sent again when three later ones have arrived, not before", "[efe][detail]")
{
    Sender sender;
    sender.answer(0, {1, 2});
    CHECK(sender.sent() == Numbers{});
    sender.answer(0, {1, 2, 3});
    CHECK(sender.sent() == Numbers{0});
    sender.answer(0, {1, 2, 3, 7, 8, 9});
    CHECK(sender.sent() == Numbers{4, 5, 6});
    sender.answer(0, {1, 2, 3, 5, 6, 7, 8, 9}); // two retransmissions after that of 0
    CHECK(sender.sent() == Numbers{});
    CHECK(sender.a.stream(0, sender.b, 0).acknowledged == 0);
    sender.answer(10, {});
    CHECK(sender.a.stream(0, sender.b, 0).acknowledged == 10);
    CHECK(sender.a.counted().timeouts == 0);
}

TEST_CASE("a retransmission that is lost is found by the same rule", "[efe][detail]")
{
    Sender sender;
    sender.answer(0, {1, 2, 3});
    REQUIRE(sender.sent() == Numbers{0});
    sender.world.now += 100 * us;
    sender.a.send(0, sender.b, 0, 3); // 10, 11, 12: after the retransmission
    sender.answer(0, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    CHECK(sender.sent() == Numbers{0});
}

TEST_CASE("the last frames are asked for after a millisecond, all are sent again after the timeout",
          "[efe][detail]")
{
    Sender sender;
    sender.answer(5, {});
    sender.frames.clear();
    sender.world.run_for(999 * us);
    CHECK(sender.sent() == Numbers{});
    sender.world.run_for(1 * us);
    CHECK(sender.sent() == Numbers{9});
    CHECK((header_of(sender.frames.at(0).second).flags & EFE_ACK_NOW) != 0);
    sender.frames.clear();
    sender.world.run_for(999 * us);
    CHECK(sender.sent() == Numbers{});
    sender.world.run_for(1 * us);
    CHECK(sender.sent() == Numbers{5, 6, 7, 8, 9});
    sender.frames.clear();
    sender.world.run_for(1999 * us); // doubled
    CHECK(sender.sent() == Numbers{});
    sender.world.run_for(1 * us);
    CHECK(sender.sent() == Numbers{5, 6, 7, 8, 9});
}

TEST_CASE("of two frames with the same acknowledgment, the window of the younger counts", "[efe][detail]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    std::vector<std::pair<std::uint64_t, Bytes>> frames;
    world.captured = &frames;
    a.send(0, b, 0, 20);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    world.run_for(ms);
    const auto ack = std::find_if(frames.rbegin(), frames.rend(), [&](const auto &frame) {
        return frame.second[11] == b.mac[5] && type_of(frame.second) == EFE_ACK;
    });
    REQUIRE(ack != frames.rend());
    efe_header header = header_of(ack->second);
    REQUIRE(a.info(0, b, 0).peer_window == 256);
    header.window = 0;
    header.sent -= 1;
    a.receive(frame_of(header));
    CHECK(a.info(0, b, 0).peer_window == 256);
    header.sent += 2;
    a.receive(frame_of(header));
    CHECK(a.info(0, b, 0).peer_window == 0);
    header.window = 60000;
    a.receive(frame_of(header));
    CHECK(a.info(0, b, 0).peer_window == 256);
}

TEST_CASE("every second frame is acknowledged, the last one at once if it asks", "[efe][detail]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.send(0, b, 0, 100); // the last one has "ack now"
    world.run_for(10 * us);
    CHECK(a.stream(0, b, 0).acknowledged == 100);
    CHECK(b.counted().acks >= 50);
    CHECK(b.counted().acks <= 54);
}

TEST_CASE("a single frame is acknowledged after 100 us", "[efe][detail]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.send(0, b, 0, 4);
    world.run_for(ms);
    const std::uint32_t flow = a.open(0, b, 0);
    REQUIRE(efe_reserve(&a.efe, flow) != nullptr);
    const efe_send send{EFE_DATA, 0, 0, 0, 0, 4};
    b.judges = [](const Ends &) { return false; };
    efe_commit(&a.efe, world.now, flow, &send, 0, 4);
    world.run_for(99 * us);
    CHECK(a.stream(0, b, 0).acknowledged == 4);
    world.run_for(1 * us);
    CHECK(a.stream(0, b, 0).acknowledged == 5);
    CHECK(a.info(0, b, 0).rtt_ns < 10 * us); // how long it was held is told
}

TEST_CASE("an acknowledgment that the switch has refused is sent later", "[efe][detail]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    const std::uint64_t until = world.now + 300 * us;
    b.refuses = [&](const Bytes &) { return world.now < until; };
    a.send(0, b, 0, 4);
    world.run_for(400 * us);
    CHECK(a.stream(0, b, 0).acknowledged == 4);
    CHECK(a.counted().resent == 0);
}

TEST_CASE("a frame that the switch has refused is sent when it has room", "[efe][detail]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    bool full = true;
    a.refuses = [&](const Bytes &) { return full; };
    a.send(0, b, 0, 10);
    world.run_for(ms);
    CHECK(b.stream(0, a, 0).delivered == 0);
    full = false;
    efe_unblock(&a.efe, world.now);
    world.run_for(10 * us);
    CHECK(b.stream(0, a, 0).delivered == 10);
    CHECK(a.counted().resent == 0);
}

TEST_CASE("after a window has been closed for long, what is lost is soon sent again", "[efe][detail]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    b.stop(0);
    a.send(0, b, 0, 2000);
    world.run_for(2 * second);
    b.go_on(0);
    unsigned data = 0;
    world.passes = [&](const Bytes &frame) { return type_of(frame) != EFE_DATA || ++data > 20; };
    REQUIRE(world.run_until([&] { return world.is_done(); }, 30 * ms));
}

TEST_CASE("a path does not send in bursts what it sends in a round trip", "[efe][detail]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    world.bottleneck(b, "rate=1G,delay=400us");
    a.max_payload = 1448;
    a.send(0, b, 0, 3000);
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    world.run_for(10 * ms);
    REQUIRE(a.info(0, b, 0).congestion > 20 * 1500);
    std::vector<std::pair<std::uint64_t, Bytes>> frames;
    world.captured = &frames;
    a.send(0, b, 0, 20);
    CHECK(frames.size() <= 2);
    world.run_for(ms);
    CHECK(frames.size() >= 20);
}

TEST_CASE("flows of a path that time out together halve its window once", "[efe][detail]")
{
    World world;
    Settings settings;
    settings.functions = 16;
    settings.impair = "delay=50us";
    Adapter &a = world.add(settings), &b = world.add(settings);
    for (std::uint16_t fn = 0; fn < 16; ++fn) {
        a.send(fn, b, fn, 200);
    }
    REQUIRE(world.run_until([&] { return world.is_done(); }, second));
    b.absent = true;
    for (std::uint16_t fn = 0; fn < 16; ++fn) {
        a.send(fn, b, fn, 2);
    }
    const std::uint32_t before = a.info(0, b, 0).congestion;
    REQUIRE(world.run_until([&] { return a.counted().timeouts >= 16; }, 20 * ms));
    CHECK(a.info(0, b, 0).congestion >= before / 4);
    CHECK(a.info(0, b, 0).congestion < before);
}

TEST_CASE("a wire that loses nearly everything without delay is not flooded", "[efe][detail]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.max_payload = 1448;
    world.bottleneck(b, "rate=100M,delay=500us,queue=1"); // what comes while a frame passes is lost
    a.send(0, b, 0, 1000000);
    world.run_for(2 * second);
    const double useful = static_cast<double>(b.stream(0, a, 0).delivered);
    CHECK(useful > 10000);
    CHECK(static_cast<double>(a.counted().resent) < 3 * useful); // otherwise thirty times as much
    CHECK(world.wrong() == "");
}

TEST_CASE("a path that was cut is soon as fast as before", "[efe][detail]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.max_payload = 1448;
    world.bottleneck(b, "rate=1G,delay=2ms");
    a.send(0, b, 0, 1000000);
    world.run_for(200 * ms);
    b.absent = true;
    world.run_for(second);
    b.absent = false;
    world.run_for(150 * ms); // a probe comes within 100
    const std::uint64_t before = b.stream(0, a, 0).bytes;
    world.run_for(50 * ms);
    CHECK(static_cast<double>(b.stream(0, a, 0).bytes - before) > 0.5 * 256 * 740 / 0.002 * 0.05);
}

TEST_CASE("a way that becomes longer is not taken for a queue for ever", "[efe][detail]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.max_payload = 1448;
    world.bottleneck(b, "rate=1G,delay=50us");
    a.send(0, b, 0, 10000000);
    world.run_for(100 * ms);
    world.bottleneck(b, "rate=1G,delay=1ms");
    a.send(0, b, 0, 10000000);
    world.run_for(11 * second);
    const std::uint64_t before = b.stream(0, a, 0).bytes;
    world.run_for(100 * ms);
    CHECK(static_cast<double>(b.stream(0, a, 0).bytes - before) > 0.4 * 125e6 * 0.1);
}

TEST_CASE("what moves in both directions over a bad wire is not held up by timers", "[efe][detail]")
{
    World world;
    Settings settings;
    settings.impair = "loss=0.03,delay=50us,seed=6";
    Adapter &a = world.add(settings), &b = world.add(settings);
    a.send(0, b, 0, 20000);
    b.send(0, a, 0, 20000);
    const std::uint64_t start = world.now;
    REQUIRE(world.run_until([&] { return world.is_done(); }, 10 * second));
    CAPTURE((world.now - start) / us, a.counted().timeouts, a.counted().resent, b.counted().acks);
    CHECK(world.now - start < 60 * ms);
}

TEST_CASE("a reset ends a flow that has not heard from its peer by that flow's epoch alone", "[efe][detail]")
{
    Sender sender;
    efe_header reset{};
    std::copy(sender.a.mac.begin(), sender.a.mac.end(), reset.to_mac);
    std::copy(sender.b.mac.begin(), sender.b.mac.end(), reset.from_mac);
    reset.type = EFE_RESET;
    reset.next_expected = sender.first.epoch + 1; // as an answer to a frame of another life
    sender.a.receive(frame_of(reset));
    CHECK(sender.a.info(0, sender.b, 0).outstanding == 10);
    reset.next_expected = sender.first.epoch;
    sender.a.receive(frame_of(reset));
    CHECK(sender.a.info(0, sender.b, 0).outstanding == 0);
}

TEST_CASE("what came behind a gap is told, whatever else is sent", "[efe][detail]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.judges = [](const Ends &) { return false; };
    b.absent = true;
    std::vector<std::pair<std::uint64_t, Bytes>> frames;
    world.captured = &frames;
    a.commit(a.open(0, b, 0), 10, 1448);
    a.commit(a.open(1, b, 1), 6, 1448); // the path's window is used up
    a.commit(a.open(0, b, 0), 1, 1448);
    REQUIRE(frames.size() == 16);
    efe_header header = header_of(frames.at(0).second);
    std::swap_ranges(header.to_mac, header.to_mac + 6, header.from_mac);
    header.flags = 0;
    header.payload_bytes = 1;
    header.next_expected = header.epoch + 10;
    header.window = 256;
    header.echo = header.sent;
    header.epoch = 1000;
    header.sequence = 1001;
    frames.clear();
    a.receive(frame_of(header)); // acknowledges ten, and comes behind a gap
    REQUIRE(frames.size() == 2);
    CHECK(type_of(frames[0].second) == EFE_DATA);
    REQUIRE(type_of(frames[1].second) == EFE_ACK);
    CHECK(header_of(frames[1].second).next_expected == 1000);
    CHECK(efe_sack_get(&frames[1].second[EFE_PAYLOAD_AT], 1));
}

TEST_CASE("round trips of before a long silence say nothing about the way as it is", "[efe][detail]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    world.bottleneck(b, "delay=50us");
    a.send(0, b, 0, 100);
    world.run_for(second);
    REQUIRE(a.info(0, b, 0).base_rtt_ns < 100 * us);
    world.run_for(60 * second);
    world.bottleneck(b, "delay=1ms");
    a.send(0, b, 0, 100);
    world.run_for(second);
    CHECK(a.info(0, b, 0).base_rtt_ns >= ms);
}
