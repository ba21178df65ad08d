// SPDX-License-Identifier: MIT
//
// What things cost, and whether time passes for it; what the engines do at the same time, and where
// they wait for each other.
#include <algorithm>
#include <catch2/catch.hpp>

#include "devices/two.hpp"

extern "C" {
#include "devices/rnic/card/port.h"
}

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

Work write_back(const Two &two, std::uint32_t length)
{
    Work work = two.write(length);
    work.segments = {two.in_b(0, length)};
    work.remote_address = two.mem_a;
    work.remote_stag = two.tag_a;
    return work;
}

/** When the last payload was stored in memory, as the transactions say. */
std::uint64_t last_store(const Host &host)
{
    std::uint64_t last = 0;
    for (const Crossing &transaction : host.transactions) {
        const bool payload = transaction.kind == RNIC_TRANSACTION_DMA_WRITE && transaction.bytes > 1000;
        last = payload ? transaction.time : last;
    }
    return last;
}

constexpr unsigned kWrites = 8;
constexpr std::uint32_t kWriteBytes = 64000;

/** How long writes from a to b take in simulated time, with as many from b to a or without. */
std::uint64_t time_of_writes(rnic_card_profile profile, bool both)
{
    Two two(with(profile, true));
    two.host.run_for(1000000);
    two.host.record = two.other->record = true;
    const std::uint64_t start = two.host.now;
    for (unsigned i = 0; i < kWrites; ++i) {
        two.a.post(two.pair->qp_a, two.write(kWriteBytes), false);
        if (both) {
            two.b.post(two.pair->qp_b, write_back(two, kWriteBytes), false);
        }
    }
    two.a.ring(two.pair->qp_a);
    two.b.ring(two.pair->qp_b);
    for (unsigned i = 0; i < kWrites; ++i) {
        REQUIRE(two.next_a().status == 0);
    }
    const std::uint64_t last = std::max(last_store(two.host), last_store(*two.other));
    REQUIRE(last > start);
    return last - start;
}

} // namespace

TEST_CASE("a port moves one run of bytes at a time", "[card]")
{
    rnic_port port{0, 400, 0};
    CHECK(rnic_port_takes(&port, 2048) == 5120);
    CHECK(rnic_port_move(&port, 1000, 2048) == 6120);
    CHECK(rnic_port_move(&port, 2000, 400) == 7120);  // waits for the first
    CHECK(rnic_port_move(&port, 9000, 400) == 10000); // does not
    CHECK(rnic_port_move(&port, 500, 0) == 500);
    CHECK(port.free == 10000);
    rnic_port any{0, 0, 0};
    CHECK(rnic_port_move(&any, 77, 1 << 30) == 77);
}

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

TEST_CASE("what a card sends and receives at once shares the memory's port, or has one each way", "[card]")
{
    // One port of 400 MB/s, of which a direction alone can use 330 MB/s: 1.65 times as long, not
    // twice.
    const std::uint64_t one = time_of_writes(RNIC_PROFILE_MARTINI_2002, false);
    const std::uint64_t both = time_of_writes(RNIC_PROFILE_MARTINI_2002, true);
    CHECK(both > one * 14 / 10);
    CHECK(both < one * 19 / 10);
    // PCI Express has a port each way: the other direction costs next to nothing.
    CHECK(time_of_writes(RNIC_PROFILE_EXPETHER_2008, true) <
          time_of_writes(RNIC_PROFILE_EXPETHER_2008, false) * 12 / 10);
}

TEST_CASE("transactions are in the order of their times while engines overlap", "[card]")
{
    Two two(with(RNIC_PROFILE_MARTINI_2002, true));
    two.host.record = true;
    for (unsigned i = 0; i < kWrites; ++i) {
        two.a.post(two.pair->qp_a, two.write(kWriteBytes), false);
        two.b.post(two.pair->qp_b, write_back(two, kWriteBytes), false);
    }
    two.a.ring(two.pair->qp_a);
    two.b.ring(two.pair->qp_b);
    for (unsigned i = 0; i < kWrites; ++i) {
        REQUIRE(two.next_a().status == 0);
    }
    std::uint64_t last = 0;
    for (const Crossing &transaction : two.host.transactions) {
        REQUIRE(transaction.time >= last);
        last = transaction.time;
    }
}

TEST_CASE("a read completes after its last byte is in memory, although another engine says so", "[card]")
{
    Two two(with(RNIC_PROFILE_MARTINI_2002, true));
    two.host.run_for(1000000);
    two.host.record = true;
    two.post_a(two.read(4000));
    REQUIRE(two.next_a().status == 0);
    std::uint64_t entry = 0;
    for (const Crossing &transaction : two.host.transactions) {
        const bool is_entry = transaction.kind == RNIC_TRANSACTION_DMA_WRITE && transaction.bytes == 28;
        entry = is_entry ? transaction.time : entry;
    }
    // the bus takes 120 ns to begin a write, and 70 for the 28 bytes
    CHECK(entry == last_store(two.host) + 190);
}

TEST_CASE("a frame leaves when its engine has made it, also by a perfect wire", "[card]")
{
    Two two(with(RNIC_PROFILE_MARTINI_2002, true));
    two.host.run_for(1000000);
    char error[100];
    REQUIRE(rnic_card_impair(&two.host.card, "", error, sizeof error));
    two.host.record = true;
    two.host.left.clear();
    two.host.transactions.clear();
    two.post_a(two.write(4000));
    const std::uint64_t start = two.host.now;
    two.next_a();
    std::uint64_t read = 0;
    for (const Crossing &transaction : two.host.transactions) {
        const bool payload = transaction.kind == RNIC_TRANSACTION_DMA_READ && transaction.bytes == 4000;
        read = payload ? transaction.time : read;
    }
    CHECK(read >= start + 10000); // 4,000 bytes at 400 MB/s
    REQUIRE_FALSE(two.host.left.empty());
    CHECK(two.host.left[0] == read);
}
