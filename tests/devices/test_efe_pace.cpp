// SPDX-License-Identifier: MIT
//
// Congestion: flows of different adapters share a line evenly, and keep it full without keeping a
// queue in front of it.
#include <catch2/catch.hpp>

#include "adapters.hpp"

using namespace adapters;

namespace {

struct Share {
    double least, most; // of the line's bytes, by adapter
    double used;        // of what the line can carry
};

/** So many adapters send to one through a line of 1 Gb/s, the second half a while later; their
 * shares after the start. */
Share share_of(unsigned senders, const std::string &line, std::uint64_t later, std::uint64_t seed)
{
    World world;
    Settings settings;
    settings.seed = seed;
    settings.mtu = 9000;
    Adapter &to = world.add(settings);
    world.bottleneck(to, line);
    for (unsigned i = 0; i < senders; ++i) {
        Adapter &from = world.add(settings);
        from.max_payload = 8948;
        from.send(0, to, 0, 1000000);
        world.run_for(later);
    }
    world.run_for(100 * ms);
    std::vector<std::uint64_t> before;
    for (unsigned i = 1; i <= senders; ++i) {
        before.push_back(to.stream(0, *world.adapters[i], 0).bytes);
    }
    world.run_for(800 * ms);
    REQUIRE(world.wrong() == "");
    double all = 0, least = 1e18, most = 0;
    for (unsigned i = 1; i <= senders; ++i) {
        const double bytes = static_cast<double>(to.stream(0, *world.adapters[i], 0).bytes - before[i - 1]);
        all += bytes;
        least = std::min(least, bytes);
        most = std::max(most, bytes);
    }
    return Share{least / all, most / all, all / (0.8 * 125e6)};
}

} // namespace

TEST_CASE("two adapters share a line within 20 %", "[efe][pace]")
{
    const std::string line = GENERATE("rate=1G", "rate=1G,delay=100us,jitter=10us", "rate=1G,delay=1ms",
                                      "rate=1G,delay=100us,queue=40K", "rate=1G,delay=100us,loss=0.01");
    const std::uint64_t later = GENERATE(0, 37 * us, 50 * ms);
    CAPTURE(line, later);
    const Share share = share_of(2, line, later, 1);
    CAPTURE(share.least, share.most, share.used);
    CHECK(share.least >= 0.8 * share.most);
    CHECK(share.used > 0.7);
}

TEST_CASE("many adapters fill a line, and none is left out", "[efe][pace]")
{
    const Share share = share_of(8, "rate=1G,delay=100us", 3 * ms, 1);
    CAPTURE(share.least, share.most, share.used);
    CHECK(share.least >= 0.4 * share.most);
    CHECK(share.used > 0.7);
}

TEST_CASE("functions of two adapters share their path evenly, and with it the line", "[efe][pace]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    world.bottleneck(b, "rate=1G,delay=100us");
    for (std::uint16_t fn = 0; fn < 4; ++fn) {
        a.send(fn, b, fn, 1000000);
    }
    world.run_for(100 * ms);
    std::uint64_t least = UINT64_MAX, most = 0;
    for (std::uint16_t fn = 0; fn < 4; ++fn) {
        least = std::min(least, b.stream(fn, a, fn).bytes);
        most = std::max(most, b.stream(fn, a, fn).bytes);
    }
    CHECK(least > 0.95 * static_cast<double>(most));
    CHECK(a.info(0, b, 0).congestion == a.info(3, b, 3).congestion);
}

TEST_CASE("a path keeps its line full and the queue in front of it short", "[efe][pace]")
{
    World world;
    Adapter &a = world.add(), &b = world.add();
    a.max_payload = 1448;
    world.bottleneck(b, "rate=1G,delay=200us,queue=100M");
    a.send(0, b, 0, 1000000);
    world.run_for(100 * ms);
    const std::uint64_t before = b.stream(0, a, 0).bytes;
    std::uint64_t longest = 0;
    for (unsigned i = 0; i < 400; ++i) {
        world.run_for(ms);
        longest = std::max(longest, a.info(0, b, 0).rtt_ns);
    }
    CHECK(b.stream(0, a, 0).bytes - before > 0.75 * 125e6 * 0.4);
    CHECK(longest <
          600 * us); // 200 us without a queue, and 200 us of queue are allowed before the window shrinks
    CHECK(world.wrong() == "");
}
