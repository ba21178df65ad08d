// SPDX-License-Identifier: MIT
//
// The samples of the picture of vipl-gen and vipl-cap: however long a run lasts, there is room for
// them, and together they have all that was sent.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>

extern "C" {
#include "traffic_plot.h"
}

namespace {

const std::uint64_t kTick = 50000000; // of a look at the counters, in nanoseconds

/** The counters at a time: so many packets of 100 bytes as that has microseconds. */
vipl_dm_counters at(std::uint64_t ns)
{
    vipl_dm_counters counters{};
    counters.sent = ns / 1000;
    counters.sent_bytes = ns / 10;
    counters.lost = ns / 1000000;
    return counters;
}

} // namespace

TEST_CASE("a plot keeps samples of the whole of a run, however long it is", "[dm_plot]")
{
    const auto plot = std::make_unique<traffic_plot>();
    for (const std::uint64_t looks : {1u, 1023u, 1024u, 1025u, 2048u, 100000u}) {
        traffic_plot_start(plot.get(), "x.svg", 777);
        for (std::uint64_t i = 1; i <= looks; ++i) {
            const vipl_dm_counters counters = at(i * kTick);
            traffic_plot_look(plot.get(), 777 + i * kTick, &counters, false);
        }
        const std::uint64_t end = looks * kTick + 12345;
        const vipl_dm_counters counters = at(end);
        traffic_plot_look(plot.get(), 777 + end, &counters, true);
        REQUIRE(plot->count <= TRAFFIC_MOST_SAMPLES);
        CHECK(plot->count > std::min<std::uint64_t>(looks, TRAFFIC_MOST_SAMPLES / 2 - 2));
        CHECK((plot->sample[0].ns == 0 && plot->sample[0].packets == 0));
        CHECK(
            (plot->sample[plot->count - 1].ns == end && plot->sample[plot->count - 1].packets == end / 1000));
        std::uint64_t longest = 0;
        std::uint64_t shortest = UINT64_MAX;
        for (unsigned i = 1; i < plot->count; ++i) {
            const traffic_sample &sample = plot->sample[i];
            const std::uint64_t apart = sample.ns - plot->sample[i - 1].ns;
            REQUIRE(sample.ns > plot->sample[i - 1].ns);
            REQUIRE((sample.packets == sample.ns / 1000 && sample.bytes == sample.ns / 10));
            REQUIRE(sample.lost == sample.ns / 1000000);
            longest = std::max(longest, apart);
            shortest = i + 2 < plot->count ? std::min(shortest, apart) : shortest;
        }
        CHECK((looks < 4 || longest <= 2 * shortest));
    }
}

TEST_CASE("without a picture no sample is taken", "[dm_plot]")
{
    const auto plot = std::make_unique<traffic_plot>();
    traffic_plot_start(plot.get(), nullptr, 0);
    const vipl_dm_counters counters = at(kTick);
    traffic_plot_look(plot.get(), kTick, &counters, true);
    CHECK(plot->count == 1);
    CHECK(traffic_plot_draw(plot.get(), "nothing"));
}
