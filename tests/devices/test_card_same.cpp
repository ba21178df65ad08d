// SPDX-License-Identifier: MIT
//
// The same seed gives the same card: everything that crosses its edge, byte for byte, on every
// machine.
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

namespace {

/** Messages of all kinds over a bad wire, with faults; what it all comes to. */
std::uint32_t play(std::uint64_t seed, bool simulated)
{
    Setup setup;
    setup.two_cards = true;
    setup.level = RNIC_LEVEL_RECEPTION;
    setup.big_b = true;
    setup.config.seed = seed;
    setup.config.simulated = simulated;
    setup.config.profile = RNIC_PROFILE_EXPETHER_2008;
    Two two(setup);
    char error[100];
    const std::string wire = "loss=0.02,reorder=0.05,duplicate=0.02,corrupt=0.02,delay=5us,jitter=2us,seed=" +
                             std::to_string(seed);
    REQUIRE(rnic_card_impair(&two.host.card, wire.c_str(), error, sizeof error));
    REQUIRE(rnic_card_faults(&two.host.card, "interrupt_lost=0.1,seed=3", error, sizeof error));
    for (unsigned i = 0; i < 30; ++i) {
        two.a.arm(two.pair->cq_a);
        two.post_b(two.receive(65536, i));
        Work write = two.write(i * 977 % 30000, i % 13);
        write.flags = i % 2 == 0 ? static_cast<unsigned>(RNIC_WORK_FLAG_IMMEDIATE) : 0u;
        two.post_a(write);
        if (i % 2 == 1) {
            two.post_a(two.send(i * 1313 % 20000));
        }
        two.post_a(two.read(i * 411 % 9000));
        for (unsigned n = i % 2 == 1 ? 3 : 2; n-- > 0;) {
            REQUIRE(two.next_a().status == 0);
        }
        REQUIRE(two.next_b().status == 0);
    }
    return two.host.crc ^ (two.other->crc * 31);
}

} // namespace

TEST_CASE("a card's configuration is the same after it was a text", "[same]")
{
    rnic_card_config config{};
    config.functions = 3;
    config.qps = 5;
    config.cqs = 7;
    config.stags = 11;
    config.pbl_entries = 13;
    config.flows = 17;
    config.frames = 19;
    config.mtu = 601;
    const std::uint8_t mac[] = {2, 3, 5, 7, 11, 13};
    std::copy_n(mac, sizeof mac, config.mac);
    config.seed = 0xFEDCBA9876543210;
    config.dram_bytes = 8192;
    config.sram_bytes = 4096;
    config.profile = RNIC_PROFILE_MODERN;
    config.simulated = true;
    config.raw[0] = 6;
    config.raw[3] = UINT64_C(1) << 63;
    char text[RNIC_CARD_TEXT];
    REQUIRE(rnic_card_describe(&config, text, sizeof text));
    rnic_card_config again{};
    REQUIRE(rnic_card_understand(text, &again));
    CHECK((again.functions == 3 && again.qps == 5 && again.cqs == 7 && again.stags == 11));
    CHECK((again.pbl_entries == 13 && again.flows == 17 && again.frames == 19 && again.mtu == 601));
    CHECK(std::equal(mac, mac + sizeof mac, again.mac));
    CHECK((again.seed == config.seed && again.dram_bytes == 8192 && again.sram_bytes == 4096));
    CHECK((again.profile == RNIC_PROFILE_MODERN && again.simulated));
    CHECK(std::equal(config.raw, config.raw + RNIC_CARD_MAX_FUNCTIONS / 64, again.raw));
    CHECK_FALSE(rnic_card_describe(&config, text, 40));
    for (const char *wrong : {"", "functions", "functions=1 ", "functions=0x100000003", "ports=1"}) {
        CHECK_FALSE(rnic_card_understand(wrong, &again));
    }
    rnic_card_describe(&config, text, sizeof text);
    std::string less = text;
    less.replace(less.find("qps=0x5"), 7, "qps=0x0");
    CHECK_FALSE(rnic_card_understand(less.c_str(), &again));
}

TEST_CASE("the same seed gives the same transactions, another seed others", "[card]")
{
    const bool simulated = GENERATE(false, true);
    const std::uint32_t first = play(1, simulated);
    CHECK(play(1, simulated) == first);
    CHECK(play(2, simulated) != first);
}

TEST_CASE("transactions are the same on every machine", "[card]")
{
    // The number is of the card as it is: who changes what crosses its edge, or when, records the
    // new one.
    CHECK(play(1, true) == 0x8BFEDF94);
}
