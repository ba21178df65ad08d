// SPDX-License-Identifier: MIT
//
// Sets of ranges, beside a set of the C++ library that does the same.
#include <catch2/catch.hpp>

#include <map>
#include <memory>
#include <random>

#include "internal.hpp"

namespace {

struct Set {
    Set() { vipl_ranges_init(&set); }
    bool add(std::uint64_t first, std::uint64_t last)
    {
        auto range = std::make_unique<vipl_range>();
        range->first = first;
        range->last = last;
        if (!vipl_ranges_add(&set, range.get())) {
            return false;
        }
        model[first] = std::move(range);
        return true;
    }
    bool overlaps(std::uint64_t first, std::uint64_t last) const
    {
        for (const auto &one : model) {
            if (one.second->first <= last && first <= one.second->last) {
                return true;
            }
        }
        return false;
    }
    vipl_ranges set{};
    std::map<std::uint64_t, std::unique_ptr<vipl_range>> model;
};

unsigned depth_of(const vipl_range *r)
{
    return r == nullptr ? 0 : 1 + std::max(depth_of(r->lower), depth_of(r->higher));
}

} // namespace

TEST_CASE("ranges are added unless they overlap, found by number, and removed", "[ranges]")
{
    std::mt19937_64 random(2);
    Set s;
    for (int i = 0; i < 20000; ++i) {
        const std::uint64_t first = random() % 2000, last = first + random() % 8;
        if (random() % 2 == 0) {
            const bool overlaps = s.overlaps(first, last);
            REQUIRE(s.add(first, last) == !overlaps);
        } else if (!s.model.empty()) {
            auto victim = s.model.lower_bound(first);
            victim = victim == s.model.end() ? s.model.begin() : victim;
            vipl_ranges_remove(&s.set, victim->second.get());
            s.model.erase(victim);
        }
        REQUIRE(s.set.count == s.model.size());
        const std::uint64_t asked = random() % 2010;
        const vipl_range *found = vipl_ranges_at_or_after(&s.set, asked), *wanted = nullptr;
        for (auto &one : s.model) {
            if (one.second->last >= asked) {
                wanted = one.second.get();
                break;
            }
        }
        REQUIRE(found == wanted);
    }
}

TEST_CASE("ranges at both ends of all numbers", "[ranges]")
{
    Set s;
    CHECK(s.add(0, 0));
    CHECK(s.add(UINT64_MAX, UINT64_MAX));
    CHECK_FALSE(s.add(0, UINT64_MAX));
    CHECK(s.add(1, UINT64_MAX - 1));
    CHECK(vipl_ranges_at_or_after(&s.set, UINT64_MAX)->first == UINT64_MAX);
    CHECK(vipl_ranges_at_or_after(&s.set, UINT64_MAX - 1)->first == 1);
}

TEST_CASE("ranges that come in order make no list of the tree", "[ranges]")
{
    Set s;
    for (std::uint64_t i = 0; i < 65535; ++i) {
        REQUIRE(s.add(i * 4096, i * 4096 + 4095));
    }
    CHECK(depth_of(s.set.root) < 80);
}
