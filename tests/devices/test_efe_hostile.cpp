// SPDX-License-Identifier: MIT
//
// Frames that no honest peer sends: each is counted, and changes nothing for the flows that are
// there.
#include <catch2/catch.hpp>

#include <random>

#include "adapters.hpp"
#include "frames.hpp"

using namespace adapters;

namespace {

/** Two adapters with a flow that has been used both ways, and is in use. */
struct Bench {
    explicit Bench(std::uint32_t frames_of_each = 64)
        : a(world.add(settings(frames_of_each))), b(world.add(settings(frames_of_each)))
    {
        world.captured = &frames;
        a.send(0, b, 0, 20);
        b.send(0, a, 0, 20);
        REQUIRE(world.run_until([&] { return world.is_done(); }, second));
        world.run_for(ms);
        efe_hold(&b.efe, b.open(0, a, 0));
        for (const auto &frame : frames) {
            if (frame.second[11] == a.mac[5] && header_of(frame.second).type == EFE_DATA) {
                last = header_of(frame.second);
            }
        }
        last.flags = EFE_FIRST | EFE_LAST;
        // As the next frame of a would be.
        last.sequence = last.epoch + 20;
        last.next_expected = epoch_of_b() + 20;
        last.sent = static_cast<std::uint32_t>(world.now / us);
        world.captured = nullptr;
    }
    static Settings settings(std::uint32_t frames)
    {
        Settings settings;
        settings.flows = 8;
        settings.frames = frames;
        return settings;
    }
    std::uint32_t epoch_of_b() const
    {
        for (const auto &frame : frames) {
            if (frame.second[11] == b.mac[5]) {
                return header_of(frame.second).epoch;
            }
        }
        return 0;
    }
    /** The flow does as well as ever. */
    void check_whole()
    {
        a.send(0, b, 0, 100);
        b.send(0, a, 0, 100);
        CHECK(world.run_until([&] { return world.is_done(); }, second));
        CHECK(world.wrong() == "");
        CHECK(a.stream(0, b, 0).deaths.empty());
        CHECK(b.stream(0, a, 0).deaths.empty());
    }

    World world;
    Adapter &a, &b;
    std::vector<std::pair<std::uint64_t, Bytes>> frames;
    efe_header last{};
};

} // namespace

TEST_CASE("bytes that are no frame are counted by what is wrong with them", "[efe][hostile]")
{
    Bench bench;
    Bytes frame = frame_of(bench.last);
    for (std::size_t bytes = 0; bytes < frame.size(); ++bytes) {
        bench.b.receive(Bytes(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(bytes)));
    }
    CHECK(bench.b.counted().faults[EFE_FAULT_SHORT] == frame.size());
    frame.back() ^= 0xFF;
    bench.b.receive(frame);
    CHECK(bench.b.counted().faults[EFE_FAULT_CRC] == 1);
    bench.check_whole();
}

TEST_CASE("frames for others, and from groups, are not taken", "[efe][hostile]")
{
    Bench bench;
    efe_header header = bench.last;
    header.to_mac[5] = 9;
    bench.b.receive(frame_of(header));
    header = bench.last;
    std::fill(header.to_mac, header.to_mac + 6, 0xFF);
    bench.b.receive(frame_of(header));
    header = bench.last;
    header.from_mac[0] |= 1;
    bench.b.receive(frame_of(header));
    header = bench.last;
    header.payload_bytes = 1449; // more than the MTU has room for
    bench.b.receive(frame_of(header));
    CHECK(bench.b.counted().not_ours == 4);
    CHECK(bench.b.stream(0, bench.a, 0).delivered == 20);
    bench.check_whole();
}

TEST_CASE("what acknowledges frames that were never sent is not believed", "[efe][hostile]")
{
    Bench bench;
    const std::uint32_t beyond = GENERATE(1, 2, 255, 256, 1000, 0x7FFFFFFF);
    efe_header header = bench.last;
    header.next_expected += beyond;
    bench.b.receive(frame_of(header));
    header.type = EFE_ACK;
    header.payload_bytes = EFE_SACK_BYTES;
    bench.b.receive(frame_of(header, {0xFF}));
    CHECK(bench.b.counted().impossible == 2);
    CHECK(bench.b.stream(0, bench.a, 0).delivered == 20);
    bench.check_whole();
}

TEST_CASE("a selective acknowledgment of what was never sent is passed over", "[efe][hostile]")
{
    Bench bench;
    bench.a.absent = true;
    bench.b.send(0, bench.a, 0, 5);
    bench.world.run_for(10 * us);
    efe_header header = bench.last;
    header.type = EFE_ACK;
    header.payload_bytes = EFE_SACK_BYTES;
    bench.b.receive(frame_of(header, {0xFF})); // all 256 frames from the first unacknowledged one on
    CHECK(bench.b.info(0, bench.a, 0).outstanding == 5);
    CHECK(bench.b.stream(0, bench.a, 0).acknowledged == 20);
    bench.a.absent = false;
    bench.world.run_for(second);
    CHECK(bench.a.stream(0, bench.b, 0).delivered ==
          21); // the oldest frame is never acknowledged in this way
    // The lie was about b's own frames: they count as arrived until the flow dies of it, and
    // nothing else is touched.
    CHECK(bench.b.counted().impossible == 0);
    bench.b.send(1, bench.a, 1, 100);
    CHECK(bench.world.run_until([&] { return bench.a.stream(1, bench.b, 1).delivered == 100; }, second));
}

TEST_CASE("a number far outside the window is not kept", "[efe][hostile]")
{
    Bench bench;
    const std::uint32_t offset = GENERATE(256, 257, 1000, 0x7FFFFFFF);
    efe_header header = bench.last;
    header.sequence += offset;
    bench.b.receive(frame_of(header));
    CHECK(bench.b.counted().outside == 1);
    header.sequence = bench.last.sequence - 1 - offset % 1000;
    bench.b.receive(frame_of(header));
    CHECK(bench.b.counted().duplicates == 1);
    CHECK(bench.b.info(0, bench.a, 0).kept == 0);
    bench.check_whole();
}

TEST_CASE(
    "beside frames that are kept, those again are duplicates, and numbers beyond their window are outside",
    "[efe][hostile]")
{
    const std::uint32_t kept = GENERATE(1u, 3u, 100u);
    Bench bench(2048);
    bench.b.stop(0); // the frames stay with EFE
    bench.a.send(0, bench.b, 0, kept);
    REQUIRE(bench.world.run_until([&] { return bench.b.info(0, bench.a, 0).kept == kept; }, second));
    const auto receive = [&](std::uint32_t offset) {
        efe_header header = bench.last;
        header.sequence += offset;
        bench.b.receive(frame_of(header));
    };
    const std::uint64_t duplicates = bench.b.counted().duplicates, outside = bench.b.counted().outside;
    receive(0);
    receive(kept - 1);
    receive(0u - 1); // delivered long ago
    receive(0u - EFE_WINDOW_MAX - 1);
    CHECK(bench.b.counted().duplicates - duplicates == 4);
    for (const std::uint32_t beyond : {0u, 1u, kept - 1, kept, unsigned{EFE_WINDOW_MAX} - 1}) {
        receive(EFE_WINDOW_MAX + beyond);
    }
    CHECK(bench.b.counted().outside - outside == 5);
    CHECK(bench.b.counted().duplicates - duplicates == 4);
    CHECK(bench.b.info(0, bench.a, 0).kept == kept);
    bench.b.go_on(0);
    bench.check_whole();
    CHECK(bench.b.stream(0, bench.a, 0).delivered == 20 + kept + 100);
}

TEST_CASE("a frame that is kept behind a gap is a duplicate when it comes again", "[efe][hostile]")
{
    Bench bench;
    efe_header header = bench.last;
    header.sequence += GENERATE(1u, 2u, unsigned{EFE_WINDOW_MAX} - 1); // those before it are missing
    const std::uint64_t duplicates = bench.b.counted().duplicates;
    for (unsigned i = 0; i < 5; ++i) {
        bench.b.receive(frame_of(header));
        CHECK(bench.b.info(0, bench.a, 0).kept == 1);
        CHECK(bench.b.counted().duplicates - duplicates == i);
    }
    CHECK(bench.b.counted().outside == 0);
}

TEST_CASE("a reset of another life ends nothing, and no reset is answered", "[efe][hostile]")
{
    Bench bench;
    const std::uint64_t sent = bench.b.counted().sent;
    efe_header header = bench.last;
    header.type = EFE_RESET;
    header.payload_bytes = 0;
    header.epoch = 0;
    header.next_expected = 0;
    bench.b.receive(frame_of(header));
    header.epoch = bench.last.epoch + 1;
    header.next_expected = bench.epoch_of_b() + 1;
    bench.b.receive(frame_of(header));
    CHECK(bench.b.counted().impossible == 2);
    header.from_fn = 3; // of no flow
    bench.b.receive(frame_of(header));
    header.to_fn = 999; // of no function
    bench.b.receive(frame_of(header));
    CHECK(bench.b.counted().sent == sent);
    bench.check_whole();
}

TEST_CASE("frames of unknown epochs are answered by resets, but not too often", "[efe][hostile]")
{
    Bench bench;
    const std::uint64_t resets = bench.b.counted().resets_sent;
    efe_header header = bench.last;
    header.epoch += 5;
    for (unsigned i = 0; i < 10000; ++i) {
        bench.b.receive(frame_of(header));
    }
    CHECK(bench.b.counted().unknown_epoch == 10000);
    CHECK(bench.b.counted().resets_sent - resets == 64);
    CHECK(bench.b.counted().silent == 10000 - 64);
    bench.world.now += 10 * ms;
    for (unsigned i = 0; i < 1000; ++i) {
        bench.b.receive(frame_of(header));
    }
    CHECK(bench.b.counted().resets_sent - resets == 74);
    bench.check_whole();
}

TEST_CASE("a stranger that claims to be a new life of the peer is asked, and ends nothing", "[efe][hostile]")
{
    Bench bench;
    efe_header header = bench.last;
    header.flags |= EFE_NEW;
    header.epoch = 12345;
    header.sequence = 12345;
    const std::uint64_t acks = bench.b.counted().acks;
    bench.b.receive(frame_of(header));
    CHECK(bench.b.counted().acks == acks + 1);
    CHECK(bench.b.counted().unknown_epoch == 1);
    CHECK(bench.b.stream(0, bench.a, 0).delivered == 20);
    for (unsigned i = 0; i < 200; ++i) { // not as often as it likes
        bench.b.receive(frame_of(header));
    }
    CHECK(bench.b.counted().acks == acks + 64);
    CHECK(bench.b.counted().silent == 200 - 63);
    bench.check_whole();
}

TEST_CASE("a new flow that begins far behind its epoch is none", "[efe][hostile]")
{
    Bench bench;
    efe_header header = bench.last;
    header.flags |= EFE_NEW;
    header.from_fn = 3;
    header.message = 0;
    header.sequence = header.epoch + 257;
    bench.b.receive(frame_of(header));
    CHECK(bench.b.counted().unknown_epoch == 1);
    CHECK(bench.b.counted().resets_sent == 1);
    header.epoch = 0;
    header.sequence = 0;
    bench.b.receive(frame_of(header));
    CHECK(bench.b.counted().unknown_epoch == 2);
    bench.check_whole();
}

TEST_CASE("a flood of new flows costs those in use nothing", "[efe][hostile]")
{
    const bool gaps = GENERATE(false, true); // the first frames never come
    Bench bench;
    bench.b.send(1, bench.a, 1, 1);
    bench.world.run_for(ms);
    const std::uint32_t used = bench.b.open(1, bench.a, 1);
    efe_hold(&bench.b.efe, used);
    efe_header header = bench.last;
    header.flags |= EFE_NEW;
    header.sequence = header.epoch;
    std::mt19937 dice(1);
    for (unsigned i = 0; i < 20000; ++i) {
        for (unsigned at = 1; at < 6; ++at) {
            header.from_mac[at] = static_cast<std::uint8_t>(dice());
        }
        header.from_fn = static_cast<std::uint16_t>(dice());
        header.to_fn = static_cast<std::uint16_t>(dice() % 8);
        header.sequence = header.epoch + gaps;
        header.message = 0;
        bench.b.receive(frame_of(header));
        if (i % 64 == 0) {
            bench.world.run_for(50 * us);
        }
    }
    CHECK((gaps ? bench.b.counted().no_flow : bench.b.counted().reclaimed) > 500);
    bench.b.wrong.clear(); // the strangers' contents
    CHECK(bench.b.open(1, bench.a, 1) == used);
    bench.check_whole();
    bench.a.send(1, bench.b, 1, 10);
    CHECK(bench.world.run_until([&] { return bench.b.stream(1, bench.a, 1).delivered == 10; }, second));
    bench.world.run_for(6 * second);
    for (std::uint16_t fn = 0; fn < 4; ++fn) { // the strangers' flows have died, or give way
        CHECK(bench.b.open(2, bench.a, fn) != EFE_NO_FLOW);
    }
}

TEST_CASE("buffers that hold what came out of order are bounded", "[efe][hostile]")
{
    Bench bench;
    efe_header header = bench.last;
    for (std::uint32_t gap = 1; gap < 256; ++gap) {
        header.sequence = bench.last.sequence + gap;
        bench.b.receive(frame_of(header));
    }
    CHECK(bench.b.info(0, bench.a, 0).kept == 16); // half of the half for such frames
    CHECK(bench.b.counted().no_buffer == 255 - 16);
    // Another peer's function still has its order restored.
    World &world = bench.world;
    rnic_impair_config bad = wire("reorder=0.3,seed=1");
    rnic_switch_impair(&bench.a.sw, &bad);
    bench.a.send(2, bench.b, 2, 500);
    CHECK(world.run_until([&] { return bench.b.stream(2, bench.a, 2).delivered == 500; }, second));
}

TEST_CASE("times that make no sense are not taken for round trips", "[efe][hostile]")
{
    Bench bench;
    const std::uint64_t rtt = bench.b.info(0, bench.a, 0).rtt_ns;
    efe_header header = bench.last;
    header.type = EFE_PROBE;
    header.payload_bytes = 0;
    for (const std::uint32_t held : {0u, 0x80000000u, 0xFFFFFFFFu, 20000000u}) {
        header.echo = header.sent + 1000 - held / 3;
        header.held = held;
        bench.b.receive(frame_of(header));
    }
    CHECK(bench.b.info(0, bench.a, 0).rtt_ns == rtt);
    bench.check_whole();
}

TEST_CASE("a thousand adapters' worth of rubbish leaves a flow whole", "[efe][hostile]")
{
    Bench bench;
    std::mt19937_64 dice(GENERATE(1, 2, 3, 4));
    for (unsigned i = 0; i < 20000; ++i) {
        efe_header header = bench.last;
        std::uint8_t *fields = reinterpret_cast<std::uint8_t *>(&header);
        for (unsigned change = 0; change < 3; ++change) { // of fields behind the MACs
            fields[12 + dice() % (sizeof header - 12)] = static_cast<std::uint8_t>(dice());
        }
        header.type = static_cast<std::uint8_t>(1 + dice() % 6);
        header.payload_bytes = header.type == EFE_ACK ? 32 : header.type > 4 ? 0 : dice() % 64;
        if (header.epoch == bench.last.epoch || header.next_expected == bench.epoch_of_b()) {
            header.epoch ^= 0x01000000; // knowing a flow's epochs is being its peer
            header.next_expected ^= 0x01000000;
        }
        bench.b.receive(frame_of(header, {static_cast<std::uint8_t>(dice())}));
        if (i % 100 == 0) {
            bench.world.run_for(20 * us);
        }
    }
    bench.b.wrong.clear();
    bench.world.run_for(ms);
    bench.check_whole();
}
