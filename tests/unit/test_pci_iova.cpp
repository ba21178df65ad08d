// SPDX-License-Identifier: MIT
//
// Addresses on a bus: what is given out lies in the allowed spans, is aligned, and overlaps nothing
// that is still in use.
#include <catch2/catch.hpp>

#include <cerrno>
#include <map>
#include <random>

#include "internal.hpp"

extern "C" {
#include "backends/rnic/pci/iova.h"
}

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMiB = 1 << 20;

/** An allocator over some spans, and what has been taken from it. */
struct Bus {
    explicit Bus(const std::vector<vipl_span> &spans)
    {
        rnic_iova_init(&iova, spans.data(), static_cast<unsigned>(spans.size()));
    }
    ~Bus() { rnic_iova_fini(&iova); }
    Bus(const Bus &) = delete;
    Bus &operator=(const Bus &) = delete;

    int take(uint64_t bytes, uint64_t align, uint64_t &first)
    {
        const int error = rnic_iova_take(&iova, bytes, align, &first);
        if (error == 0) {
            check_free(first, bytes);
            CHECK(first % align == 0);
            taken[first] = bytes;
        }
        return error;
    }
    void give(uint64_t first)
    {
        rnic_iova_give(&iova, first);
        taken.erase(first);
    }
    void check_free(uint64_t first, uint64_t bytes) const
    {
        const auto after = taken.lower_bound(first);
        if (after != taken.end()) {
            CHECK(first + (bytes - 1) < after->first);
        }
        if (after != taken.begin()) {
            const auto before = std::prev(after);
            CHECK(before->first + (before->second - 1) < first);
        }
    }

    rnic_iova iova;
    std::map<uint64_t, uint64_t> taken; // bytes by first address
};

} // namespace

TEST_CASE("addresses on a bus lie in its spans, of which the window of interrupts is none")
{
    Bus bus({{0, 4 * kMiB - 1}, {6 * kMiB, 8 * kMiB - 1}});
    uint64_t total = 0;
    for (uint64_t first; bus.take(kMiB, kPage, first) == 0; total++) {
        CHECK(first >= 2 * kMiB); // nothing near 0
        CHECK((first + kMiB <= 4 * kMiB || (first >= 6 * kMiB && first + kMiB <= 8 * kMiB)));
    }
    CHECK(total == 4);
    uint64_t first = 7;
    CHECK(bus.take(kPage, kPage, first) == ENOSPC);
    CHECK(first == 7);
}

TEST_CASE("an address on a bus that was given back is used again, after all others")
{
    Bus bus({{4 * kMiB, 8 * kMiB - 1}});
    uint64_t a, b, c, d;
    REQUIRE(bus.take(kMiB, kPage, a) == 0);
    REQUIRE(bus.take(kMiB, kPage, b) == 0);
    bus.give(a);
    REQUIRE(bus.take(kMiB, kPage, c) == 0);
    REQUIRE(bus.take(kMiB, kPage, d) == 0);
    CHECK(c != a);
    CHECK(d != a);
    uint64_t again;
    REQUIRE(bus.take(kMiB, kPage, again) == 0);
    CHECK(again == a);
}

TEST_CASE("giving an address back that was not taken changes nothing")
{
    Bus bus({{4 * kMiB, 5 * kMiB - 1}});
    uint64_t a;
    REQUIRE(bus.take(kMiB, kPage, a) == 0);
    rnic_iova_give(&bus.iova, a + kPage);
    rnic_iova_give(&bus.iova, a - kPage);
    uint64_t b;
    CHECK(bus.take(kPage, kPage, b) == ENOSPC);
}

TEST_CASE("a bus without spans, and pieces that no span has room for, are refused")
{
    uint64_t first;
    CHECK(Bus({}).take(kPage, kPage, first) == ENOSPC);
    CHECK(Bus({{0, kMiB - 1}}).take(kPage, kPage, first) == ENOSPC);
    Bus bus({{4 * kMiB, 6 * kMiB - 1}, {UINT64_MAX - kMiB + 1, UINT64_MAX}});
    CHECK(bus.take(0, kPage, first) == ENOSPC);
    CHECK(bus.take(3 * kMiB, kPage, first) == ENOSPC);
    CHECK(bus.take(UINT64_MAX, kPage, first) == ENOSPC);
    CHECK(bus.take(2 * kMiB, 2 * kMiB, first) == 0);
    CHECK(bus.take(kMiB, 2 * kMiB, first) == ENOSPC); // the last MiB of all is not so aligned
    CHECK(bus.take(kMiB, kPage, first) == 0);
    CHECK(first == UINT64_MAX - kMiB + 1);
    CHECK(bus.take(kPage, kPage, first) == ENOSPC);
}

TEST_CASE("addresses on a bus never overlap, whatever is taken and given back")
{
    Bus bus({{64 * kMiB, 128 * kMiB - 1}, {256 * kMiB, 300 * kMiB - 1}});
    std::mt19937 random(7);
    unsigned refused = 0;
    for (int i = 0; i < 20000; i++) {
        uint64_t first;
        if (random() % 5 < 3) {
            refused += bus.take((random() % 300 + 1) * kPage, kPage << random() % 4, first) != 0 ? 1 : 0;
        } else if (!bus.taken.empty()) {
            auto one = bus.taken.lower_bound(random() % (300 * kMiB));
            bus.give(one == bus.taken.end() ? bus.taken.begin()->first : one->first);
        }
    }
    CHECK(refused > 0); // it was full at times
}
