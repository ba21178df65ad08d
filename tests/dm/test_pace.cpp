// SPDX-License-Identifier: MIT
//
// When packets are due: exact sums, over weeks.
#include <catch2/catch.hpp>

#include <cstdint>

extern "C" {
#include "dm/pace.h"
}

namespace {

constexpr std::uint64_t kSecond = 1000000000;
constexpr std::uint64_t kWeek = 7 * 86400 * kSecond;

/** a * b / c, rounded down, where the product may have 128 bits; c has 63 bits at most. */
std::uint64_t part_of(std::uint64_t a, std::uint64_t b, std::uint64_t c)
{
    std::uint64_t quotient = 0;
    std::uint64_t rest = 0;
    for (int bit = 63; bit >= 0; --bit) {
        rest = 2 * rest + ((b >> bit & 1) != 0 ? a % c : 0);
        quotient = 2 * quotient + rest / c;
        rest %= c;
    }
    return a / c * b + quotient;
}

} // namespace

TEST_CASE("packets per second that do not divide a second are held exactly", "[dm_pace]")
{
    for (std::uint64_t rate : {1ull, 3ull, 7ull, 999999937ull, 3000000019ull, 1000000000000000ull}) {
        dm_pace pace{};
        unsigned wrong = 0;
        dm_pace_start(&pace, VIPL_DM_PACKETS, rate, 1, 5);
        for (std::uint64_t i = 0; i < 200000; ++i) {
            dm_pace_before(&pace, 0);
            const std::uint64_t sum = part_of(i, kSecond, rate);
            wrong += dm_pace_release(&pace) == 5 + sum ? 0 : 1;
            dm_pace_after(&pace, 60);
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("a rate in bits is that of the sum of all packets", "[dm_pace]")
{
    dm_pace pace{};
    std::uint64_t bits = 0;
    unsigned wrong = 0;
    dm_pace_start(&pace, VIPL_DM_BITS, 9876543211, 1, 0);
    for (std::uint32_t i = 0; i < 200000; ++i) {
        const std::uint32_t bytes = 60 + i * 7919 % 1455;
        const std::uint64_t sum = part_of(bits, kSecond, 9876543211);
        dm_pace_before(&pace, 0);
        wrong += dm_pace_release(&pace) == sum ? 0 : 1;
        dm_pace_after(&pace, bytes);
        bits += 8ull * bytes;
    }
    CHECK(wrong == 0);
}

TEST_CASE("a gap, and the top speed", "[dm_pace]")
{
    dm_pace pace{};
    dm_pace_start(&pace, VIPL_DM_GAP, kWeek, 0, 1);
    for (std::uint64_t i = 0; i < 100; ++i) {
        dm_pace_before(&pace, 77);
        REQUIRE(dm_pace_release(&pace) == 1 + i * kWeek);
        dm_pace_after(&pace, 60);
    }
    dm_pace_start(&pace, VIPL_DM_TOP_SPEED, 0, 0, 9);
    for (int i = 0; i < 100; ++i) {
        dm_pace_before(&pace, kWeek);
        REQUIRE(dm_pace_release(&pace) == 9);
        dm_pace_after(&pace, 60);
    }
}

TEST_CASE("recorded gaps are held, slower and faster, over weeks", "[dm_pace]")
{
    for (std::uint64_t millionths : {1000000ull, 333333ull, 3000000ull, 1ull, 999999999999ull}) {
        dm_pace pace{};
        std::uint64_t sum = 0;
        unsigned wrong = 0;
        dm_pace_start(&pace, VIPL_DM_RECORDED, millionths, 1, 0);
        for (std::uint64_t i = 0; i < 100000; ++i) {
            const std::uint64_t gap = i % 1000 == 0 ? 60 * kSecond : i * 104729 % 1000003;
            sum += gap;
            dm_pace_before(&pace, gap);
            const std::uint64_t due = part_of(sum, 1000000, millionths);
            wrong += dm_pace_release(&pace) == due ? 0 : 1;
            dm_pace_after(&pace, 60);
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("a burst leaves when its first packet is due, and the rate is the same", "[dm_pace]")
{
    dm_pace pace{};
    dm_pace_start(&pace, VIPL_DM_PACKETS, 1000, 4, 0);
    for (std::uint64_t i = 0; i < 4000; ++i) {
        dm_pace_before(&pace, 0);
        REQUIRE(dm_pace_release(&pace) == i / 4 * 4 * 1000000);
        dm_pace_after(&pace, 60);
    }
}

TEST_CASE("a time that cannot be told is the end of time, and not the past", "[dm_pace]")
{
    dm_pace pace{};
    dm_pace_start(&pace, VIPL_DM_RECORDED, 1, 1, kSecond); // a millionth of the pace
    dm_pace_before(&pace, UINT64_MAX / 2);
    CHECK(dm_pace_release(&pace) == UINT64_MAX);
    dm_pace_before(&pace, 1);
    CHECK(dm_pace_release(&pace) == UINT64_MAX);
}
