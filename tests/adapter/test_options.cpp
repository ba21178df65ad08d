// SPDX-License-Identifier: MIT
//
// The command line of vipl-rnicd.
#include <catch2/catch.hpp>

#include <cstring>
#include <string>
#include <vector>

#include "internal.hpp"

namespace {

struct Line {
    rnic_options options{};
    char text[128] = "";
    std::vector<std::string> words;
    rnic_option_result read(std::vector<std::string> given)
    {
        words = std::move(given);
        words.insert(words.begin(), "vipl-rnicd");
        std::vector<char *> arguments;
        for (auto &word : words) {
            arguments.push_back(word.data());
        }
        rnic_options_init(&options);
        return rnic_options_read(&options, static_cast<int>(arguments.size()), arguments.data(), text,
                                 sizeof text);
    }
};

} // namespace

TEST_CASE("options of vipl-rnicd say what the card is like and where it is served", "[options]")
{
    Line line;
    REQUIRE(line.read({"--socket",  "/a/b",
                       "--dir=/c",  "--bus",
                       "/d",        "--functions=7",
                       "--mac",     "02:0a:ff:00:01:FE",
                       "--mtu",     "1400",
                       "--profile", "martini2002",
                       "--dram=8M", "--sram",
                       "4096",      "--seed=0x10",
                       "--spin",    "7",
                       "--linger",  "--lifeline=5"}) == RNIC_OPTIONS_RUN);
    const rnic_adapter_config &adapter = line.options.adapter;
    CHECK(std::string(adapter.socket) == "/a/b");
    CHECK(std::string(adapter.folder) == "/c");
    CHECK(std::string(adapter.bus) == "/d");
    CHECK(adapter.card.functions == 7);
    CHECK(std::memcmp(adapter.card.mac, "\x02\x0A\xFF\x00\x01\xFE", 6) == 0);
    CHECK((adapter.card.mtu == 1400 && adapter.card.profile == RNIC_PROFILE_MARTINI_2002 &&
           adapter.card.seed == 16));
    CHECK((adapter.card.dram_bytes == 8u << 20 && adapter.card.sram_bytes == 4096));
    CHECK((adapter.spin_ns == 7000 && adapter.lingers && line.options.lifeline == 5));
    REQUIRE(line.read({"--dram=1G", "--sram=1M", "--profile=capture2020", "--raw=0,65,255"}) ==
            RNIC_OPTIONS_RUN);
    CHECK((adapter.card.dram_bytes == 1u << 30 && adapter.card.sram_bytes == 1u << 20 &&
           adapter.card.profile == RNIC_PROFILE_CAPTURE_2020));
    CHECK((adapter.card.raw[0] == 1 && adapter.card.raw[1] == 2 && adapter.card.raw[2] == 0 &&
           adapter.card.raw[3] == std::uint64_t{1} << 63));
    REQUIRE(line.read({"--raw", "7"}) == RNIC_OPTIONS_RUN); // and no others
    CHECK((adapter.card.raw[0] == 128 && adapter.card.raw[1] == 0 && adapter.card.raw[3] == 0));
    REQUIRE(line.read({"--dram=0", "--sram=0"}) == RNIC_OPTIONS_RUN);
    CHECK((adapter.card.dram_bytes == 0 && adapter.card.sram_bytes == 0));
}

TEST_CASE("a card of which nothing is said has 256 functions and dice of its own", "[options]")
{
    Line one, other;
    REQUIRE(one.read({"--socket", "/a"}) == RNIC_OPTIONS_RUN);
    REQUIRE(other.read({"--socket", "/a"}) == RNIC_OPTIONS_RUN);
    const rnic_card_config &card = one.options.adapter.card;
    CHECK((card.functions == 256 && card.mtu == 9000 && !one.options.adapter.lingers &&
           one.options.lifeline == -1));
    CHECK((card.dram_bytes == 16u << 20 && card.sram_bytes == 16u << 10));
    CHECK(card.seed != other.options.adapter.card.seed);
}

TEST_CASE("wrong options are named, and nothing is served", "[options]")
{
    Line line;
    for (const std::vector<std::string> &wrong :
         {std::vector<std::string>{"--socket"},
          {"--socket="},
          {"--sock", "/a"},
          {"-s", "/a"},
          {"--"},
          {"x"},
          {"--socket", "/a", "--functions", "0"},
          {"--socket", "/a", "--functions", "257"},
          {"--socket", "/a", "--functions", "1x"},
          {"--socket", "/a", "--functions", "-1"},
          {"--socket", "/a", "--functions", " 1"},
          {"--socket", "/a", "--functions="},
          {"--socket", "/a", "--spin", "1000001"},
          {"--socket", "/a", "--functions", "99999999999999999999999"},
          {"--socket", "/a", "--mac", "01:00:00:00:00:00"},
          {"--socket", "/a", "--mac", "02:00:00:00:00"},
          {"--socket", "/a", "--mac", "02:00:00:00:00:00x"},
          {"--socket", "/a", "--mtu=575"},
          {"--socket", "/a", "--mtu=9001"},
          {"--socket", "/a", "--profile", "fast"},
          {"--socket", "/a", "--dram", "4095"},
          {"--socket", "/a", "--dram", "1025M"},
          {"--socket", "/a", "--dram", "1T"},
          {"--socket", "/a", "--dram", "4KB"},
          {"--socket", "/a", "--dram="},
          {"--socket", "/a", "--dram", "-4K"},
          {"--socket", "/a", "--dram", "18446744073709551616"},
          {"--socket", "/a", "--sram", "2M"},
          {"--socket", "/a", "--raw", "256"},
          {"--socket", "/a", "--raw", "1,"},
          {"--socket", "/a", "--raw="},
          {"--socket", "/a", "--raw", "1;2"},
          {"--socket", "/a", "--raw", "000000000001"},
          {"--socket", "/a", "--linger=1"},
          {"--socket", "/a", "--lifeline=2"}}) {
        INFO((wrong.empty() ? "" : wrong.back()));
        CHECK(line.read(wrong) == RNIC_OPTIONS_WRONG);
        CHECK(line.text[0] != '\0');
    }
    CHECK(line.read({"--help"}) == RNIC_OPTIONS_HELP);
    CHECK(line.read({"--version"}) == RNIC_OPTIONS_VERSION);
}

TEST_CASE("what is kept of the wire, faults and the log is as it was written", "[options]")
{
    Line line;
    REQUIRE(line.read({"--wire", "udp:127.0.0.1:9", "--impair=loss=0.1,seed=3", "--fault", "dma_fail=@3",
                       "--log=/x.txt"}) == RNIC_OPTIONS_RUN);
    const rnic_adapter_config &adapter = line.options.adapter;
    CHECK((adapter.socket == nullptr && std::string(adapter.wire) == "udp:127.0.0.1:9"));
    CHECK((std::string(adapter.impair) == "loss=0.1,seed=3" && std::string(adapter.faults) == "dma_fail=@3"));
    CHECK((std::string(adapter.log) == "/x.txt" && !adapter.has_mac && !adapter.has_mtu && !adapter.records));
    REQUIRE(line.read({"--record", "/y"}) == RNIC_OPTIONS_RUN);
    CHECK((std::string(adapter.log) == "/y" && adapter.records));
    CHECK((line.read({"--stats"}) == RNIC_OPTIONS_STATS && line.options.stats_seconds == 0));
    CHECK((line.read({"--stats=5", "--socket=/a"}) == RNIC_OPTIONS_STATS && line.options.stats_seconds == 5));
    CHECK(line.read({"--stats=0"}) == RNIC_OPTIONS_WRONG);
    CHECK(line.read({"--stats", "5"}) == RNIC_OPTIONS_WRONG);
}

TEST_CASE("every option of vipl-rnicd that is for people is in its help", "[options]")
{
    for (const char *name : {"--socket ", "--dir ", "--functions ", "--mac ", "--mtu ", "--profile ",
                             "--spin ", "--seed ", "--linger ", "--help", "--version"}) {
        CHECK(std::strstr(rnic_options_help, name) != nullptr);
    }
}
