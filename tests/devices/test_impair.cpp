// SPDX-License-Identifier: MIT
//
// The bad wire: the texts that describe one, and whether it does what they say.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <vector>

extern "C" {
#include "devices/rnic/efe/impair.h"
}

namespace {

rnic_impair_config parsed(const std::string &text)
{
    rnic_impair_config config{};
    char error[128] = "";
    INFO(text << ": " << error);
    REQUIRE(rnic_impair_parse(text.c_str(), &config, error, sizeof error));
    return config;
}

std::string error_of(const std::string &text)
{
    rnic_impair_config config{}, before{};
    config.seed = before.seed = 99;
    char error[128] = "no error";
    CHECK_FALSE(rnic_impair_parse(text.c_str(), &config, error, sizeof error));
    CHECK(std::memcmp(&config, &before, sizeof config) == 0);
    return error;
}

struct Counts {
    unsigned lost = 0, doubled = 0, corrupted = 0, late = 0;
    std::uint64_t first = UINT64_MAX, last = 0;
};

/** What becomes of so many frames. */
Counts counts_of(const std::string &text, unsigned frames)
{
    const rnic_impair_config config = parsed(text);
    rnic_impair impair;
    rnic_impair_init(&impair, &config);
    Counts counts;
    for (unsigned i = 0; i < frames; ++i) {
        rnic_fate fate;
        rnic_impair_decide(&impair, 1000, 100, &fate);
        counts.lost += fate.copies == 0;
        counts.doubled += fate.copies == 2;
        for (unsigned copy = 0; copy < fate.copies; ++copy) {
            counts.corrupted += fate.corrupted[copy];
            counts.late += fate.due[copy] - 1000 > config.delay_ns + config.jitter_ns;
            counts.first = std::min(counts.first, fate.due[copy] - 1000);
            counts.last = std::max(counts.last, fate.due[copy] - 1000);
        }
    }
    return counts;
}

} // namespace

TEST_CASE("a text describes a wire", "[impair]")
{
    const rnic_impair_config config = parsed("seed=7,loss=0.05,delay=100us,jitter=20ns,reorder=1,duplicate=0."
                                             "000000001,corrupt=1.0,rate=1G,queue=100K");
    CHECK(config.seed == 7);
    CHECK(config.loss == 50000000);
    CHECK(config.delay_ns == 100000);
    CHECK(config.jitter_ns == 20);
    CHECK(config.reorder == 1000000000);
    CHECK(config.duplicate == 1);
    CHECK(config.corrupt == 1000000000);
    CHECK(config.rate == 1000000000);
    CHECK(config.queue == 100000);
    CHECK(parsed("seed=18446744073709551615").seed == UINT64_MAX);
    CHECK(parsed("delay=10s").delay_ns == 10000000000);
    CHECK(parsed("delay=3ms").delay_ns == 3000000);
    CHECK(parsed("rate=1T").rate == 1000000000000);
    CHECK(parsed("rate=1000").rate == 1000);
    CHECK(parsed("queue=1").queue == 1);
    CHECK(parsed("loss=0").loss == 0);
}

TEST_CASE("an empty text is a perfect wire, and what only names a seed too", "[impair]")
{
    for (const char *text : {"", "seed=4", "loss=0.0", "queue=7"}) {
        const rnic_impair_config config = parsed(text);
        CHECK(rnic_impair_is_perfect(&config));
    }
    for (const char *text :
         {"loss=0.1", "delay=1ns", "jitter=1ns", "reorder=1", "duplicate=1", "corrupt=1", "rate=1M"}) {
        const rnic_impair_config config = parsed(text);
        CHECK_FALSE(rnic_impair_is_perfect(&config));
    }
    CHECK(parsed("").queue == 1000000);
}

TEST_CASE("a text that is not right says what is wrong", "[impair]")
{
    CHECK(error_of("los=0.1") == "there is no 'los'");
    CHECK(error_of("loss=0.1,") == "there is no ''");
    CHECK(error_of(",") == "there is no ''");
    CHECK(error_of("loss=0.1,loss=0.1") == "'loss' is given twice");
    CHECK(error_of("loss") == "'loss' is a decimal fraction of 0 to 1, not ''");
    CHECK(error_of("loss=1.1") == "'loss' is a decimal fraction of 0 to 1, not '1.1'");
    CHECK(error_of("delay=5") == "'delay' is a time of at most 10 s that ends in ns, us, ms or s, not '5'");
    CHECK(error_of(std::string(1000, 'x')).size() < 128);
}

TEST_CASE("values are what their kind allows, and nothing else", "[impair]")
{
    const char *const bad[] = {"loss=",
                               "loss=-0.1",
                               "loss=2",
                               "loss=0.1x",
                               "loss=.5",
                               "loss=0.",
                               "loss=1.000000001",
                               "loss=0.1234567890",
                               "loss= 0.1",
                               "loss=1e-3",
                               "loss=0,5",
                               "loss==0.5",
                               "loss=0.5.5",
                               "delay=us",
                               "delay=1 us",
                               "delay=1h",
                               "delay=11s",
                               "delay=-1us",
                               "delay=1.5us",
                               "jitter=10001ms",
                               "delay=99999999999999999999ns",
                               "rate=999",
                               "rate=0",
                               "rate=2T",
                               "rate=1g",
                               "rate=1GB",
                               "rate=",
                               "queue=0",
                               "queue=2G",
                               "queue=x",
                               "seed=",
                               "seed=-1",
                               "seed=0x10",
                               "seed=18446744073709551616",
                               "Loss=0.1",
                               "delay=18446744073710s",
                               "rate=18446744073709551615T"};
    for (const char *text : bad) {
        CAPTURE(text);
        CHECK(error_of(text) != "no error");
    }
}

TEST_CASE("frames are lost, doubled, corrupted and held back as often as is said", "[impair]")
{
    const Counts counts =
        counts_of("loss=0.2,duplicate=0.05,corrupt=0.01,reorder=0.1,delay=10us,seed=3", 100000);
    CHECK(std::abs(counts.lost - 20000.0) < 600); // more than four deviations
    CHECK(std::abs(counts.doubled - 4000.0) < 300);
    CHECK(std::abs(counts.corrupted - 840.0) < 130);
    CHECK(std::abs(counts.late - 8400.0) < 400);
    CHECK(counts.first == 10000);
    CHECK(counts.last > 10000 + 99000);
    CHECK(counts.last <= 10000 + 100000);
    CHECK(counts_of("loss=1", 1000).lost == 1000);
    CHECK(counts_of("loss=0,delay=1us", 1000).lost == 0);
    CHECK(counts_of("duplicate=1", 1000).doubled == 1000);
}

TEST_CASE("jitter is even around the delay, and never before now", "[impair]")
{
    const Counts around = counts_of("delay=100us,jitter=20us,seed=1", 10000);
    CHECK(around.first >= 80000);
    CHECK(around.first < 80200);
    CHECK(around.last <= 120000);
    CHECK(around.last > 119800);
    const Counts cut = counts_of("delay=10us,jitter=20us,seed=1", 10000);
    CHECK(cut.first == 0);
    CHECK(cut.last <= 30000);
}

TEST_CASE("a rate lets frames through one after the other, and loses what exceeds its queue", "[impair]")
{
    const rnic_impair_config config = parsed("rate=1G,delay=5us,queue=10K");
    rnic_impair impair;
    rnic_impair_init(&impair, &config);
    rnic_fate fate;
    for (unsigned i = 1; i <= 10; ++i) {
        rnic_impair_decide(&impair, 1000000, 1000, &fate);
        REQUIRE(fate.copies == 1);
        CHECK(fate.due[0] == 1000000 + i * 8000 + 5000);
    }
    rnic_impair_decide(&impair, 1000000, 1000, &fate);
    CHECK(fate.copies == 0);
    CHECK(fate.overflow);
    rnic_impair_decide(&impair, 1008000, 1000, &fate); // one has gone
    CHECK(fate.copies == 1);
    CHECK(fate.due[0] == 1000000 + 11 * 8000 + 5000);
    rnic_impair_decide(&impair, 9000000, 100000, &fate); // alone, it may be longer than the queue
    CHECK(fate.copies == 1);
    CHECK(fate.due[0] == 9000000 + 800000 + 5000);
}

TEST_CASE("a frame has room from the time on that is foretold, and not before", "[impair]")
{
    rnic_impair_config config{};
    config.rate = GENERATE(std::uint64_t{1000000}, std::uint64_t{10000000000}, std::uint64_t{0});
    config.queue = GENERATE(1u, 3000u, 100000u);
    rnic_impair impair;
    rnic_impair_init(&impair, &config);
    std::uint64_t now = 1000;
    for (unsigned i = 0; i < 200; ++i) {
        const std::uint32_t bytes = 60 + i * 37 % 1454;
        const std::uint64_t room = rnic_impair_room(&impair, bytes);
        rnic_fate fate;
        if (room > now) {
            rnic_impair copy = impair;
            rnic_impair_decide(&copy, room - 1, bytes, &fate);
            REQUIRE(fate.overflow);
            now = room;
        }
        rnic_impair_decide(&impair, now, bytes, &fate);
        REQUIRE_FALSE(fate.overflow);
    }
    CHECK((now > 1000) == (config.rate != 0));
}

TEST_CASE("a corrupted frame is another one", "[impair]")
{
    const rnic_impair_config config = parsed("corrupt=1,seed=5");
    rnic_impair impair;
    rnic_impair_init(&impair, &config);
    const std::vector<std::uint8_t> frame(64, 0x55);
    std::vector<unsigned> flips(9);
    for (unsigned i = 0; i < 5000; ++i) {
        std::vector<std::uint8_t> bad = frame;
        rnic_impair_corrupt(&impair, bad.data(), static_cast<std::uint32_t>(bad.size()));
        unsigned bits = 0;
        for (std::size_t at = 0; at < frame.size(); ++at) {
            for (unsigned x = bad[at] ^ 0x55u; x != 0; x >>= 1) {
                bits += x & 1;
            }
        }
        REQUIRE(bits >= 1);
        REQUIRE(bits <= 7);
        ++flips[bits];
    }
    CHECK(flips[1] > 1000);
    CHECK(flips[7] > 1000);
    std::uint8_t one = 0; // bits of so short a frame are flipped back and forth, but not all
    rnic_impair_corrupt(&impair, &one, 1);
    CHECK(one != 0);
}

TEST_CASE("a seed's dice fall as they did, another's otherwise", "[impair]")
{
    const std::string wire = "loss=0.5,delay=9us,jitter=9us,seed=";
    const auto fates = [&](const std::string &text) {
        const rnic_impair_config config = parsed(text);
        rnic_impair impair;
        rnic_impair_init(&impair, &config);
        std::vector<std::uint64_t> all;
        for (unsigned i = 0; i < 64; ++i) {
            rnic_fate fate;
            rnic_impair_decide(&impair, i, 100, &fate);
            all.push_back(fate.copies == 0 ? 0 : fate.due[0]);
        }
        return all;
    };
    CHECK(fates(wire + "1") == fates(wire + "1"));
    CHECK(fates(wire + "1") != fates(wire + "2"));
}
