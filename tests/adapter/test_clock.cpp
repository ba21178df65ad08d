// SPDX-License-Identifier: MIT
//
// The card's time beside the system's.
#include <catch2/catch.hpp>

#include "internal.hpp"

namespace {

constexpr std::uint64_t kMs = 1000000, kSecond = 1000 * kMs, kBegin = 77 * kSecond;

rnic_clock begun()
{
    rnic_clock clock;
    rnic_clock_init(&clock, kBegin);
    return clock;
}

} // namespace

TEST_CASE("the card's time is the system's while the adapter runs and sleeps", "[clock]")
{
    rnic_clock clock = begun();
    CHECK(rnic_clock_look(&clock, kBegin + kMs) == kBegin + kMs);
    rnic_clock_sleep(&clock, kBegin + 20 * kSecond);
    CHECK(rnic_clock_look(&clock, kBegin + 7 * kSecond) == kBegin + 7 * kSecond); // woken before
    rnic_clock_sleep(&clock, kBegin + 20 * kSecond);
    CHECK(rnic_clock_look(&clock, kBegin + 20 * kSecond + kMs) == kBegin + 20 * kSecond + kMs);
    rnic_clock_sleep(&clock, UINT64_MAX);
    CHECK(rnic_clock_look(&clock, kBegin + 900 * kSecond) == kBegin + 900 * kSecond);
}

TEST_CASE("the card's time stands still while the adapter is kept from running", "[clock]")
{
    rnic_clock clock = begun();
    const std::uint64_t after = rnic_clock_look(&clock, kBegin + 7 * kSecond);
    CHECK(after < kBegin + kSecond / 10);
    CHECK(rnic_clock_look(&clock, kBegin + 7 * kSecond + kMs) == after + kMs);
    rnic_clock_sleep(&clock, kBegin + 8 * kSecond); // and does not wake then
    CHECK(rnic_clock_look(&clock, kBegin + 90 * kSecond) < after + kSecond + kSecond / 10);
}

TEST_CASE("a time of the card is one of the system, later by what the card has not seen", "[clock]")
{
    rnic_clock clock = begun();
    const std::uint64_t card = rnic_clock_look(&clock, kBegin + 7 * kSecond);
    CHECK(rnic_clock_system(&clock, card + kSecond) == kBegin + 8 * kSecond);
    CHECK(rnic_clock_system(&clock, UINT64_MAX) == UINT64_MAX);
    CHECK(rnic_clock_system(&clock, 0) <= kBegin);
}
