// SPDX-License-Identifier: MIT
//
// A set of intervals that may overlap, against a list that is searched from end to end.
#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <vector>

extern "C" {
#include "base/intervals.h"
}

namespace {

using Found = std::vector<const vipl_interval *>;

/** Notes what it is called for; true for the one that ends the search. */
struct Visits {
    Found seen;
    const vipl_interval *last = nullptr;

    static bool test(vipl_interval *interval, void *arg)
    {
        auto *visits = static_cast<Visits *>(arg);
        visits->seen.push_back(interval);
        return interval == visits->last;
    }
};

struct Set {
    Set() { vipl_intervals_init(&set); }

    Found containing(uintptr_t first, uintptr_t end)
    {
        Visits visits;
        CHECK(vipl_intervals_containing(&set, first, end, Visits::test, &visits) == nullptr);
        return sorted(visits.seen);
    }
    Found overlapping(uintptr_t first, uintptr_t end)
    {
        Visits visits;
        CHECK(vipl_intervals_overlapping(&set, first, end, Visits::test, &visits) == nullptr);
        return sorted(visits.seen);
    }
    static Found sorted(Found found)
    {
        std::sort(found.begin(), found.end());
        return found;
    }

    vipl_intervals set;
};

} // namespace

TEST_CASE("intervals are found that contain or overlap a range, and no others", "[intervals]")
{
    std::mt19937 random(1);
    std::vector<vipl_interval> all(300);
    std::vector<vipl_interval *> in;
    Set set;
    const auto below = [&](unsigned limit) { return static_cast<uintptr_t>(random() % limit); };
    for (int step = 0; step < 6000; ++step) {
        vipl_interval *interval = &all[below(300)];
        const auto at = std::find(in.begin(), in.end(), interval);
        if (at != in.end()) {
            vipl_intervals_remove(&set.set, interval);
            in.erase(at);
        } else {
            interval->first = below(200);
            interval->end = interval->first + 1 + below(below(4) == 0 ? 100 : 8);
            vipl_intervals_add(&set.set, interval);
            in.push_back(interval);
        }
        const uintptr_t first = below(220), end = first + 1 + below(20);
        Found contain, overlap;
        for (const vipl_interval *each : in) {
            if (each->first <= first && each->end >= end) {
                contain.push_back(each);
            }
            if (each->first < end && each->end > first) {
                overlap.push_back(each);
            }
        }
        CHECK(set.containing(first, end) == Set::sorted(contain));
        CHECK(set.overlapping(first, end) == Set::sorted(overlap));
        CHECK(in.size() == set.set.count);
    }
}

TEST_CASE("a search for intervals ends where the test says so", "[intervals]")
{
    vipl_interval all[8] = {};
    Set set;
    for (vipl_interval &each : all) {
        each.first = 10;
        each.end = 20;
        vipl_intervals_add(&set.set, &each);
    }
    for (const vipl_interval &each : all) {
        Visits visits;
        visits.last = &each;
        CHECK(vipl_intervals_containing(&set.set, 12, 13, Visits::test, &visits) == &each);
        CHECK(visits.seen.back() == &each);
    }
}

TEST_CASE("many intervals in order of their addresses do not make the tree deep", "[intervals]")
{
    std::vector<vipl_interval> all(1 << 16);
    Set set;
    for (size_t i = 0; i < all.size(); ++i) {
        all[i].first = i * 4096;
        all[i].end = all[i].first + 4096;
        vipl_intervals_add(&set.set, &all[i]);
    }
    const auto depth = [](const auto &self, const vipl_interval *tree) -> size_t {
        return tree == nullptr ? 0 : 1 + std::max(self(self, tree->lower), self(self, tree->higher));
    };
    CHECK(depth(depth, set.set.root) < 64);
    CHECK(1u == set.containing(4096 * 777, 4096 * 778).size());
    for (vipl_interval &each : all) {
        vipl_intervals_remove(&set.set, &each);
    }
    CHECK(set.set.root == nullptr);
}
