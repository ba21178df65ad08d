// SPDX-License-Identifier: MIT
//
// Readers of pcap and pcapng: both byte orders, times, and files that are hostile or cut.
#include "recordings.hpp"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

using namespace dm_test;

namespace {

bool holds(const Bytes &file, const dm_recorded &packet, const Bytes &wanted)
{
    return packet.bytes == wanted.size() && packet.offset + packet.bytes <= file.size() &&
           std::memcmp(file.data() + packet.offset, wanted.data(), wanted.size()) == 0;
}

/** A file of several sections, in both byte orders, with all kinds of blocks. */
Bytes everything()
{
    Bytes file;
    for (bool is_big : {false, true}) {
        Writer w(is_big);
        w.section();
        w.interface();
        w.interface(option(is_big, 9, {9}));
        w.block(0x0BAD, Bytes(20, 1)); // unknown
        w.packet(0, 1000001, frame(1, 60));
        w.packet(1, 1000001, frame(2, 61), 1500);
        w.block(3, Writer(is_big).u32(62).raw(frame(3, 62)).bytes());
        w.block(2, Writer(is_big).u16(1).u16(0).u32(1).u32(5).u32(63).u32(63).raw(frame(4, 63)).bytes());
        file.insert(file.end(), w.bytes().begin(), w.bytes().end());
    }
    return file;
}

} // namespace

TEST_CASE("pcap is read in both byte orders and both units of time", "[dm_recording]")
{
    for (bool is_big : {false, true}) {
        for (bool is_nano : {false, true}) {
            Writer w(is_big);
            w.pcap_head(is_nano).record(4000000000u, 999999, frame(1, 60)).record(1, 5, frame(2, 1514), 9000);
            const Reading r = read(w.bytes());
            REQUIRE(r.error == ENODATA);
            CHECK_FALSE(r.is_cut);
            REQUIRE(r.packets.size() == 2);
            CHECK(holds(w.bytes(), r.packets[0], frame(1, 60)));
            CHECK(r.packets[0].time == 4000000000ull * 1000000000 + (is_nano ? 999999 : 999999000));
            CHECK(r.packets[0].original == 60);
            CHECK(holds(w.bytes(), r.packets[1], frame(2, 1514)));
            CHECK(r.packets[1].time == 1000000000ull + (is_nano ? 5 : 5000));
            CHECK(r.packets[1].original == 9000);
        }
    }
}

TEST_CASE("pcap that cannot be sent as Ethernet frames is refused, and why is said", "[dm_recording]")
{
    CHECK(read(Writer(true).pcap_head(false, 101).bytes()).why.find("link type 0x65") != std::string::npos);
    CHECK(read(Writer(false).pcap_head(false, 1, 3).bytes()).why.find("version 3") != std::string::npos);
    CHECK(read(Writer(false).u32(0xA1B2CD34).raw(Bytes(40)).bytes()).error == EINVAL);
    CHECK(read({}).error == EINVAL);
    CHECK(read(Bytes(23, 0xA1)).error == EINVAL);
}

TEST_CASE("a packet of pcap that is longer than any is refused, one that the file cuts off is left out",
          "[dm_recording]")
{
    Writer longest(false);
    longest.pcap_head(false).u32(0).u32(0).u32(262145).u32(262145).raw(Bytes(300000));
    CHECK(read(longest.bytes()).error == EINVAL);
    Writer huge(true);
    huge.pcap_head(false).record(1, 1, frame(1, 60)).u32(0).u32(0).u32(0xFFFFFFFF).u32(60);
    CHECK(read(huge.bytes()).error == EINVAL);
    CHECK(read(huge.bytes()).packets.size() == 1);
    Writer cut(false);
    cut.pcap_head(false).record(1, 1, frame(1, 60)).u32(0).u32(0).u32(61).u32(61).raw(Bytes(60));
    const Reading r = read(cut.bytes());
    CHECK(r.error == ENODATA);
    CHECK(r.is_cut);
    CHECK(r.packets.size() == 1);
}

TEST_CASE("pcapng is read: sections of both byte orders, and the four kinds of packets", "[dm_recording]")
{
    const Bytes file = everything();
    const Reading r = read(file);
    INFO(r.why);
    REQUIRE(r.error == ENODATA);
    CHECK_FALSE(r.is_cut);
    REQUIRE(r.packets.size() == 8);
    for (unsigned i = 0; i < 8; i += 4) {
        CHECK(holds(file, r.packets[i], frame(1, 60)));
        CHECK(r.packets[i].time == 1000001000); // microseconds
        CHECK(holds(file, r.packets[i + 1], frame(2, 61)));
        CHECK(r.packets[i + 1].time == 1000001);
        CHECK(r.packets[i + 1].original == 1500);
        CHECK(holds(file, r.packets[i + 2], frame(3, 62)));
        CHECK(holds(file, r.packets[i + 3], frame(4, 63)));
        CHECK(r.packets[i + 3].time == (1ull << 32) + 5);
    }
}

TEST_CASE("times of pcapng are told in every resolution", "[dm_recording]")
{
    const auto time = [](unsigned resolution, std::uint64_t ticks) {
        const dm_interface interface = {static_cast<std::uint8_t>(resolution), 0};
        return dm_pcapng_time(&interface, ticks);
    };
    CHECK(time(0, 17) == 17000000000);
    CHECK(time(6, 1700000000123456) == 1700000000123456000);
    CHECK(time(9, 1700000000123456789) == 1700000000123456789);
    CHECK(time(12, 1700000000123456) == 1700000000123);
    CHECK(time(127, ~0ull) == 0);
    CHECK(time(0, ~0ull) == ~0ull); // beyond what can be told
    CHECK(time(0x80, 3) == 3000000000);
    CHECK(time(0x80 | 1, 3) == 1500000000);
    CHECK(time(0x80 | 32, (7ull << 32) + (1ull << 31)) == 7500000000);
    CHECK(time(0x80 | 63, ~0ull) == 1999999999);
    CHECK(time(0x80 | 64, ~0ull) == 999999999);
    CHECK(time(0x80 | 127, ~0ull) == 0);
    const dm_interface shifted = {9, static_cast<std::uint64_t>(-5000000000)};
    CHECK(dm_pcapng_time(&shifted, 7000000000) == 2000000000);
}

TEST_CASE("the offset and the resolution of an interface are taken from its options", "[dm_recording]")
{
    for (bool is_big : {false, true}) {
        Bytes options = option(is_big, 2, {'e', 't', 'h'});
        const Bytes resolution = option(is_big, 9, {3});
        const Bytes offset = option(is_big, 14, Writer(is_big).number(100, 8).bytes());
        options.insert(options.end(), resolution.begin(), resolution.end());
        options.insert(options.end(), offset.begin(), offset.end());
        const Reading r =
            read(Writer(is_big).section().interface(options).packet(0, 17, frame(1, 60)).bytes());
        REQUIRE(r.packets.size() == 1);
        CHECK(r.packets[0].time == 100017000000);
    }
}

TEST_CASE("blocks of pcapng with wrong lengths and numbers are refused", "[dm_recording]")
{
    const auto refuses = [](const Bytes &bytes, const char *why) {
        const Reading r = read(bytes);
        INFO(r.why);
        return r.error == EINVAL && r.why.find(why) != std::string::npos;
    };
    Writer w(true);
    w.section().interface();
    CHECK(refuses(Writer(w).u32(6).u32(0).u32(0).bytes(), "impossible length"));
    CHECK(refuses(Writer(w).u32(6).u32(33).raw(Bytes(40)).bytes(), "impossible length"));
    CHECK(refuses(Writer(w).packet(1, 0, frame(1, 60)).bytes(), "does not describe"));
    CHECK(refuses(Writer(w)
                      .block(6, Writer(true).u32(0).u32(0).u32(0).u32(61).u32(61).raw(frame(1, 60)).bytes())
                      .bytes(),
                  "longer than its block"));
    CHECK(refuses(Writer(w).block(6, Bytes(16)).bytes(), "too short"));
    CHECK(refuses(Writer(w).block(1, Bytes(4)).bytes(), "too short"));
    CHECK(refuses(Writer(w).interface({}, 113).bytes(), "not Ethernet"));
    CHECK(refuses(Writer(true).section().block(3, Writer(true).u32(60).raw(frame(1, 60)).bytes()).bytes(),
                  "without an interface"));
    CHECK(refuses(Writer(true)
                      .block(0x0A0D0D0A, Writer(true).u32(0x11111111).u16(1).u16(0).number(0, 8).bytes())
                      .bytes(),
                  "without a byte order"));
    CHECK(refuses(Writer(true)
                      .block(0x0A0D0D0A, Writer(true).u32(0x1A2B3C4D).u16(2).u16(0).number(0, 8).bytes())
                      .bytes(),
                  "version"));
    CHECK(refuses(
        Writer(w)
            .block(6, Writer(true).u32(0).u32(0).u32(0).u32(262145).u32(262145).raw(Bytes(262145)).bytes())
            .bytes(),
        "262144"));
}

TEST_CASE("interfaces are told apart up to a limit", "[dm_recording]")
{
    Writer w(false);
    w.section();
    for (unsigned i = 0; i < DM_MAX_INTERFACES; ++i) {
        w.interface();
    }
    CHECK(read(Writer(w).packet(DM_MAX_INTERFACES - 1, 0, frame(1, 60)).bytes()).packets.size() == 1);
    CHECK(read(Writer(w).interface().bytes()).error == EINVAL);
    // A section begins from the beginning.
    const Bytes next = Writer(false).section().packet(0, 0, frame(1, 60)).bytes();
    CHECK(read(Writer(w).raw(next).bytes()).error == EINVAL);
}

TEST_CASE("a recording that is cut anywhere is read up to there", "[dm_recording]")
{
    for (const Bytes &whole :
         {everything(),
          Writer(true).pcap_head(true).record(1, 1, frame(1, 60)).record(2, 2, frame(2, 99)).bytes()}) {
        const std::size_t all = read(whole).packets.size();
        std::size_t before = 0;
        for (std::size_t length = 0; length < whole.size(); ++length) {
            const Reading r = read(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
            REQUIRE((r.error == ENODATA || r.error == EINVAL));
            REQUIRE(r.packets.size() >= before);
            before = r.packets.size();
        }
        CHECK(before + 1 == all);
    }
}
