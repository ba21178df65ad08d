// SPDX-License-Identifier: MIT
//
// What things cost, and whether time passes for it.
#include <catch2/catch.hpp>

#include "devices/two.hpp"

using namespace card;

namespace {

std::uint64_t cost(Two &two, Driver &driver)
{
    return two.host.reg(driver.fn, RNIC_REG_COST_NS_LO) +
           (static_cast<std::uint64_t>(two.host.reg(driver.fn, RNIC_REG_COST_NS_HI)) << 32);
}

Setup with(rnic_card_profile profile, bool simulated)
{
    Setup setup;
    setup.config.profile = profile;
    setup.config.simulated = simulated;
    setup.config.mtu = 9000;
    setup.two_cards = simulated;
    return setup;
}

/** Simulated time that a write of so many bytes takes until it is complete. */
std::uint64_t time_of_write(rnic_card_profile profile, std::uint32_t bytes)
{
    Two two(with(profile, true));
    two.host.run_for(1000000);
    two.post_a(two.write(bytes));
    two.host.record = true;
    const std::uint64_t start = two.host.now;
    two.next_a();
    std::uint64_t last = 0;
    for (const Crossing &transaction : two.host.transactions) {
        const bool owner = transaction.kind == RNIC_TRANSACTION_DMA_WRITE && transaction.bytes == 4;
        last = owner ? transaction.time : last;
    }
    REQUIRE(last > start);
    return last - start;
}

} // namespace

TEST_CASE("without simulated time costs are only added up", "[card]")
{
    Two two(with(RNIC_PROFILE_EXPETHER_2008, false));
    const std::uint64_t before = cost(two, two.a);
    CHECK(before > 0); // the commands
    two.post_a(two.write(10000));
    two.host.record = true;
    two.host.run(); // no time passes
    CHECK(two.same(0, 0, 10000));
    for (const Crossing &transaction : two.host.transactions) {
        REQUIRE(transaction.time == two.host.now);
    }
    // Reading 10,000 bytes over a bus of 800 MB/s takes 12.5 us at least.
    CHECK(cost(two, two.a) - before > 12500);
    CHECK(cost(two, two.a) - before < 40000);
}

TEST_CASE("the profile without costs has none", "[card]")
{
    Two two(with(RNIC_PROFILE_NONE, false));
    two.post_a(two.write(10000));
    two.next_a();
    CHECK(cost(two, two.a) == 0);
}

TEST_CASE("simulated time passes as the profile says", "[card]")
{
    for (const rnic_card_profile profile :
         {RNIC_PROFILE_EXPETHER_2008, RNIC_PROFILE_MARTINI_2002, RNIC_PROFILE_MODERN}) {
        const std::uint64_t little = time_of_write(profile, 8), much = time_of_write(profile, 64000);
        CHECK(little < 20000);
        CHECK(much > little * 2);
    }
    // 64,000 bytes at 400 MB/s: 160 us; at 12 GB/s: 5.3 us.
    CHECK(time_of_write(RNIC_PROFILE_MARTINI_2002, 64000) > 160000);
    CHECK(time_of_write(RNIC_PROFILE_MARTINI_2002, 64000) < 500000);
    CHECK(time_of_write(RNIC_PROFILE_MODERN, 64000) < 30000);
}

TEST_CASE("a card with simulated time does not run ahead of its caller by more than a step", "[card]")
{
    Two two(with(RNIC_PROFILE_MARTINI_2002, true));
    two.host.run_for(1000000);
    for (unsigned i = 0; i < 8; ++i) {
        two.a.post(two.pair->qp_a, two.write(60000), false);
    }
    two.a.ring(two.pair->qp_a);
    for (unsigned i = 0; i < 4; ++i) { // before the peer would have to say something
        rnic_card_advance(&two.host.card, two.host.now);
        const std::uint64_t due = rnic_card_deadline(&two.host.card);
        REQUIRE(due > two.host.now); // it is busy
        REQUIRE(due < two.host.now + 100000);
        two.host.now = due;
    }
}
