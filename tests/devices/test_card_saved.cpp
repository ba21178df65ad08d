// SPDX-License-Identifier: MIT
//
// A card that a CPU of the other byte order has saved: each table of the area is turned around. The
// tests that carry a card from one CPU to another find only what that card has used.
#include <catch2/catch.hpp>
#include <cstring>

#include "devices/host.hpp"

extern "C" {
#include "devices/rnic/efe/efe.h"
#include "devices/rnic/efe/layout.h"
#include "devices/rnic/efe/switch.h"
}

using namespace card;

namespace {

constexpr std::size_t kLine = 64; // tables begin at its multiples
constexpr std::size_t kParts = 3; // the last ones: faults, switch, EFE, which turn themselves around

/** No number of 2, 4 or 8 bytes is the same when it is turned around. */
std::uint8_t pattern(std::size_t at)
{
    return static_cast<std::uint8_t>(at % 251 + 1);
}

struct Region {
    std::size_t begin, end;
};

/** The area of a card, and the tables in it: the card's state ends with where they begin. */
struct Area {
    Area()
    {
        config.functions = 2;
        config.qps = config.cqs = config.stags = 64;
        config.pbl_entries = 64;
        config.flows = 8;
        config.frames = 64;
        config.mtu = 1500;
        config.raw[0] = 1;
        bytes.resize(rnic_card_bytes(&config) / sizeof(Line));
        rnic_card made{};
        rnic_card_init(&made, at(), &config, &host, nullptr);
        const rnic_run &last = rnic_layout_state.runs[rnic_layout_state.count - 1];
        REQUIRE(last.width == 8);
        std::vector<std::uint64_t> words(last.count);
        std::memcpy(words.data(), at() + rnic_layout_state.bytes - 8 * words.size(), 8 * words.size());
        std::vector<std::size_t> begins(words.begin(), words.end());
        std::sort(begins.begin(), begins.end());
        REQUIRE(begins.back() < size());
        REQUIRE(begins.front() > rnic_layout_state.bytes);
        REQUIRE(std::adjacent_find(begins.begin(), begins.end()) == begins.end());
        check_last_parts(begins);
        numbers = {whole(rnic_layout_state.bytes), begins.front()};
        for (std::size_t i = 0; i + kParts < begins.size(); ++i) {
            tables.push_back({begins[i], begins[i + 1]});
        }
    }
    static std::size_t whole(std::size_t count) { return (count + kLine - 1) / kLine * kLine; }
    /** No table of rows is among them. */
    void check_last_parts(const std::vector<std::size_t> &begins) const
    {
        efe_config efe{};
        efe.functions = config.functions;
        efe.flows = config.flows;
        efe.frames = config.frames;
        efe.mtu = config.mtu;
        rnic_switch_config wire{};
        wire.functions = config.functions;
        wire.frames = config.frames;
        wire.mtu = config.mtu;
        const std::size_t n = begins.size();
        REQUIRE(size() - begins[n - 1] == whole(efe_bytes(&efe)));
        REQUIRE(begins[n - 1] - begins[n - 2] == whole(rnic_switch_bytes(&wire)));
        REQUIRE(begins[n - 2] - begins[n - 3] == whole(rnic_layout_faults.bytes));
    }
    std::uint8_t *at() { return bytes.front().of; }
    std::size_t size() const { return bytes.size() * sizeof(Line); }
    void fill(const Region &region)
    {
        for (std::size_t i = region.begin; i < region.end; ++i) {
            at()[i] = pattern(i);
        }
    }
    bool is_as_filled(const Region &region)
    {
        for (std::size_t i = region.begin; i < region.end; ++i) {
            if (at()[i] != pattern(i)) {
                return false;
            }
        }
        return true;
    }

    struct alignas(kLine) Line {
        std::uint8_t of[kLine];
    };
    rnic_card_host host{};
    rnic_card_config config{};
    std::vector<Line> bytes;
    Region numbers{};           ///< the links and owners of objects' numbers
    std::vector<Region> tables; ///< of rows
};

} // namespace

TEST_CASE("a card of the other byte order has all of its tables turned around", "[card]")
{
    Area area;
    area.fill(area.numbers);
    for (const Region &table : area.tables) {
        area.fill(table);
    }
    // The state alone as the other CPU has it: the tables, which are this CPU's, are what the other
    // CPU would see of them when the card goes on.
    rnic_layout_swap(&rnic_layout_state, area.at(), 1);
    rnic_card again{};
    static_cast<void>(rnic_card_continue(&again, area.at(), &area.config, true, &area.host,
                                         nullptr)); // EFE's is no other CPU's
    for (std::size_t line = area.numbers.begin; line < area.numbers.end; line += kLine) {
        INFO("bytes " << line);
        CHECK_FALSE(area.is_as_filled({line, line + kLine}));
    }
    std::size_t same = 0;
    for (const Region &table : area.tables) {
        same += area.is_as_filled(table);
    }
    CHECK(same == 1); // the marks of page lists, which are bytes
}
