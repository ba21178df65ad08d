// SPDX-License-Identifier: MIT
//
// The counts of what became of connections: what is printed, by whom, and what a child counts.
#include <cstdlib>
#include <cstring>
#include <string>

#include <unistd.h>

#include <catch2/catch.hpp>

#include "support/forked.hpp"

#define _Static_assert static_assert
extern "C" {
#include "sockets/stats.h"
}

namespace {

std::string text_of(const sock_stats &stats)
{
    char text[SOCK_STATS_TEXT_BYTES];
    return std::string(text, sock_stats_text(&stats, text));
}

} // namespace

TEST_CASE("the counts as text")
{
    sock_stats stats = {};
    std::strcpy(stats.program, "redis-server");
    stats.pid = 4711;
    CHECK(text_of(stats) == "vipl-run: redis-server[4711]: moved 0, plain 0, failed 0\n");
    stats.counts[SOCK_MOVED_TO_VIPL] = 3;
    stats.counts[SOCK_NO_MARK] = 4;
    stats.counts[SOCK_WROTE_FIRST] = 5;
    stats.lost = 1;
    CHECK(text_of(stats) == "vipl-run: redis-server[4711]: moved 3, plain 9, failed 1\n"
                            "vipl-run:   4 plain: no VIPL program listens at the port\n"
                            "vipl-run:   5 plain: the server wrote first\n");
}

TEST_CASE("the longest text fits")
{
    sock_stats stats = {};
    std::memset(&stats, 0xFF, sizeof(stats));
    const std::string text = text_of(stats);
    CHECK(text.size() < SOCK_STATS_TEXT_BYTES - 1);
    for (int reason = 1; reason < SOCK_REASONS; reason++) {
        CHECK(text.find(std::string(" plain: ") + sock_reason_text(sock_reason(reason)) + "\n") !=
              std::string::npos);
    }
}

TEST_CASE("a forked child counts from 0, and not in its parent's memory", "[maps]")
{
    sock_stats_count(SOCK_MOVED_TO_VIPL);
    const auto memories = [] { return vipl_test::lines_with("/proc/self/maps", SOCK_STATS_NAME); };
    const std::string before = memories();
    CHECK(before.find(SOCK_STATS_NAME) != std::string::npos);
    vipl_test::Forked child([&](const vipl_test::ParentLine &) {
        _exit(memories().empty() ? (sock_stats_count(SOCK_NO_MARK), memories().empty() ? 2 : 0) : 1);
    });
    child.finish_with_exit(0);
    CHECK(memories() == before);
}
