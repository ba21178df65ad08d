// SPDX-License-Identifier: MIT
//
// MPA: golden start frames and every truncation and combination of flags; FPDU trailers with CRCs
// worked out apart from this code; markers put in and taken out at every position.
#include <catch2/catch.hpp>

#include <algorithm>

#include <cstring>
#include <random>

#include "bytes.hpp"
#include "support/unmark.hpp"

extern "C" {
#include "iwarp/crc32c.h"
#include "iwarp/mpa.h"
}

using namespace unit;

namespace {

const char kRequest[] = "4d504120494420526571204672616d65"; // MPA ID Req Frame
const char kReply[] = "4d504120494420526570204672616d65";   // MPA ID Rep Frame

vipl_parse read_start(const Bytes &bytes, vipl_mpa_start *out)
{
    const Exact exact(bytes);
    return vipl_mpa_start_read(exact.get(), bytes.size(), out);
}

std::string written(const vipl_mpa_start &start)
{
    Bytes bytes(VIPL_MPA_START_BYTES);
    vipl_mpa_start_write(bytes.data(), &start);
    return hex(bytes);
}

Bytes some_ulpdu(std::size_t length)
{
    Bytes ulpdu(length);
    for (std::size_t i = 0; i < length; ++i) {
        ulpdu[i] = static_cast<std::uint8_t>(i * 7 + (i >> 8) + 1);
    }
    return ulpdu;
}

/** A whole FPDU, as a sender makes it. */
Bytes make_fpdu(const Bytes &ulpdu, bool with_crc = true)
{
    Bytes fpdu =
        Bytes{static_cast<std::uint8_t>(ulpdu.size() >> 8), static_cast<std::uint8_t>(ulpdu.size())} + ulpdu;
    const std::uint32_t crc = vipl_crc32c(0, fpdu.data(), fpdu.size());
    Bytes trailer(7);
    trailer.resize(vipl_mpa_trailer_write(trailer.data(), ulpdu.size(), crc, with_crc));
    return fpdu + trailer;
}

Bytes mark(const Bytes &fpdu, std::uint32_t *position, bool with_crc = true)
{
    Bytes marked(vipl_mpa_marked_bytes(fpdu.size()));
    marked.resize(vipl_mpa_mark(marked.data(), fpdu.data(), fpdu.size(), with_crc, position));
    return marked;
}

struct Unmarked {
    Bytes fpdu; ///< empty: not all there, or bad
    std::size_t taken;
    bool bad;
};

/** Both buffers are of exactly the size that is said. */
Unmarked unmark(const Bytes &marked, std::uint32_t *position, std::size_t size)
{
    const Exact exact(marked);
    const Exact to{Bytes(size)};
    Unmarked u{{}, 0, false};
    const std::size_t length =
        vipl_test::unmark_fpdu(to.get(), size, exact.get(), marked.size(), position, &u.taken, &u.bad);
    u.fpdu.assign(to.get(), to.get() + length);
    return u;
}

/** The places of the markers in what starts at `position`. */
std::vector<std::size_t> marker_places(std::uint32_t position, std::size_t length)
{
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < length; ++i) {
        if ((position + i) % VIPL_MPA_MARKER_SPACING == 0) {
            places.push_back(i);
        }
    }
    return places;
}

} // namespace

// --- start frames --------------------------------------------------------------------------------

TEST_CASE("start frames have these bytes on every CPU", "[mpa]")
{
    vipl_mpa_start start{};
    start.revision = 1;
    REQUIRE(written(start) == std::string(kRequest) + "00010000");
    start.crc = true;
    start.private_bytes = 0x0102;
    REQUIRE(written(start) == std::string(kRequest) + "40010102");
    start.revision = 2;
    start.enhanced = true;
    REQUIRE(written(start) == std::string(kRequest) + "50020102");
    start.reply = true;
    start.reject = true;
    start.markers = true;
    REQUIRE(written(start) == std::string(kReply) + "f0020102");
}

TEST_CASE("flags that mean nothing in a frame are not written", "[mpa]")
{
    vipl_mpa_start start{};
    start.revision = 1;
    start.reject = true; // a request rejects nothing
    start.enhanced = true;
    REQUIRE(written(start) == std::string(kRequest) + "00010000");
}

TEST_CASE("every flag byte of every revision is read as the RFCs say", "[mpa]")
{
    for (const bool reply : {false, true}) {
        for (unsigned revision = 0; revision < 256; ++revision) {
            for (unsigned flags = 0; flags < 256; ++flags) {
                Bytes bytes = bytes_of(std::string(reply ? kReply : kRequest) + "00000004");
                bytes[16] = static_cast<std::uint8_t>(flags);
                bytes[17] = static_cast<std::uint8_t>(revision);
                vipl_mpa_start start{};
                const vipl_parse parse = vipl_mpa_start_read(bytes.data(), bytes.size(), &start);
                if (revision == 0) {
                    REQUIRE(parse == VIPL_PARSE_BAD);
                    continue;
                }
                const bool right = parse == VIPL_PARSE_OK && start.reply == reply &&
                                   start.markers == ((flags & 0x80) != 0) &&
                                   start.crc == ((flags & 0x40) != 0) &&
                                   start.reject == (reply && (flags & 0x20) != 0) &&
                                   start.enhanced == (revision == 2 && (flags & 0x10) != 0) &&
                                   start.revision == revision && start.private_bytes == 4;
                if (!right) {
                    FAIL("reply " << reply << " revision " << revision << " flags " << flags);
                }
            }
        }
    }
}

TEST_CASE("a start frame is known at its 20th byte, not before and not later", "[mpa]")
{
    for (const char *key : {kRequest, kReply}) {
        const Bytes frame = bytes_of(std::string(key) + "40010003" + "616263" + "ffff");
        for (std::size_t n = 0; n <= frame.size(); ++n) {
            vipl_mpa_start start{};
            const vipl_parse parse = read_start(Bytes(frame.begin(), frame.begin() + n), &start);
            REQUIRE(parse == (n < 20 ? VIPL_PARSE_MORE : VIPL_PARSE_OK));
            REQUIRE(start.private_bytes == (n < 20 ? 0 : 3)); // untouched until it is right
        }
    }
}

TEST_CASE("no bytes at all are the start of any frame", "[mpa]")
{
    vipl_mpa_start start{};
    REQUIRE(vipl_mpa_start_read(nullptr, 0, &start) == VIPL_PARSE_MORE);
}

TEST_CASE("a frame that cannot be one is refused at the byte that says so", "[mpa]")
{
    const Bytes frame = bytes_of(std::string(kRequest) + "40010003");
    vipl_mpa_start start{};
    const auto refused_at = [&](Bytes bytes) {
        std::size_t n = 0;
        while (n < bytes.size() &&
               read_start(Bytes(bytes.begin(), bytes.begin() + n), &start) == VIPL_PARSE_MORE) {
            ++n;
        }
        // Once refused, refused for ever.
        for (std::size_t m = n; m <= bytes.size(); ++m) {
            REQUIRE(read_start(Bytes(bytes.begin(), bytes.begin() + m), &start) == VIPL_PARSE_BAD);
        }
        return n;
    };
    for (std::size_t i = 0; i < 16; ++i) {
        Bytes wrong = frame;
        wrong[i] ^= 0x80;
        REQUIRE(refused_at(wrong) == i + 1);
    }
    Bytes wrong = frame;
    wrong[17] = 0;
    REQUIRE(refused_at(wrong) == 18);
    wrong = frame;
    wrong[18] = 3; // 768 bytes and more
    REQUIRE(refused_at(wrong) == 19);
    wrong[18] = 2; // 515
    REQUIRE(refused_at(wrong) == 20);
    wrong = frame;
    wrong[16] = 0x10; // enhanced, with 3 bytes in which 4 are to be
    wrong[17] = 2;
    REQUIRE(refused_at(wrong) == 20);
}

TEST_CASE("512 bytes of private data are taken, 513 are not", "[mpa]")
{
    vipl_mpa_start start{};
    REQUIRE(read_start(bytes_of(std::string(kReply) + "00010200"), &start) == VIPL_PARSE_OK);
    REQUIRE(start.private_bytes == VIPL_MPA_MAX_PRIVATE);
    REQUIRE(read_start(bytes_of(std::string(kReply) + "00010201"), &start) == VIPL_PARSE_BAD);
}

TEST_CASE("the enhanced fields have these bytes on every CPU", "[mpa]")
{
    const auto bytes_of_fields = [](const vipl_mpa_enhanced &e) {
        std::uint8_t bytes[VIPL_MPA_ENHANCED_BYTES];
        vipl_mpa_enhanced_write(bytes, &e);
        return hex(bytes, sizeof bytes);
    };
    //                             ird  ord  A      B      C      D
    REQUIRE(bytes_of_fields({0x0102, 0x0304, false, false, false, false}) == "01020304");
    REQUIRE(bytes_of_fields({1, 2, true, false, false, false}) == "80010002");
    REQUIRE(bytes_of_fields({1, 2, false, true, false, false}) == "40010002");
    REQUIRE(bytes_of_fields({1, 2, false, false, true, false}) == "00018002");
    REQUIRE(bytes_of_fields({1, 2, false, false, false, true}) == "00014002");
    REQUIRE(bytes_of_fields({0x3FFF, 0x3FFF, true, true, true, true}) == "ffffffff");
    REQUIRE(bytes_of_fields({0x4000, 0xFFFF, false, false, false, false}) == "3fff3fff"); // the most there is
}

TEST_CASE("every combination of the enhanced bits is read as it was written", "[mpa]")
{
    for (unsigned bits = 0; bits < 16; ++bits) {
        for (const unsigned depth : {0u, 1u, 0x1555u, 0x3FFEu, 0x3FFFu}) {
            const std::uint32_t word = (bits >> 2) << 30 | depth << 16 | (bits & 3) << 14 | (0x3FFF - depth);
            const std::uint8_t bytes[] = {
                static_cast<std::uint8_t>(word >> 24), static_cast<std::uint8_t>(word >> 16),
                static_cast<std::uint8_t>(word >> 8), static_cast<std::uint8_t>(word)};
            vipl_mpa_enhanced e{};
            vipl_mpa_enhanced_read(bytes, &e);
            REQUIRE(e.ird == depth);
            REQUIRE(e.ord == 0x3FFF - depth);
            REQUIRE(e.peer_to_peer == ((bits & 8) != 0));
            REQUIRE(e.rtr_send == ((bits & 4) != 0));
            REQUIRE(e.rtr_write == ((bits & 2) != 0));
            REQUIRE(e.rtr_read == ((bits & 1) != 0));
            std::uint8_t again[VIPL_MPA_ENHANCED_BYTES];
            vipl_mpa_enhanced_write(again, &e);
            REQUIRE(hex(again, 4) == hex(bytes, 4));
        }
    }
}

// --- FPDUs ---------------------------------------------------------------------------------------

TEST_CASE("FPDUs have these bytes on every CPU", "[mpa]")
{
    REQUIRE(hex(make_fpdu({})) == "00000000"
                                  "c74b6748");
    REQUIRE(hex(make_fpdu(bytes_of("5a"))) == "00015a00"
                                              "6a1da597");
    REQUIRE(hex(make_fpdu(bytes_of("beef"))) == "0002beef"
                                                "04f77df5");
    REQUIRE(hex(make_fpdu(bytes_of("aabbcc"))) == "0003aabbcc000000"
                                                  "25a04715");
    REQUIRE(hex(make_fpdu(bytes_of("0102030405"))) == "0005010203040500"
                                                      "5a3b0d7f");
    REQUIRE(hex(make_fpdu(bytes_of("aabbcc"), false)) == "0003aabbcc000000"
                                                         "00000000");
}

TEST_CASE("an FPDU is padded to a multiple of four bytes", "[mpa]")
{
    const std::size_t pads[] = {2, 1, 0, 3};
    for (std::size_t ulpdu = 0; ulpdu <= VIPL_MPA_MAX_ULPDU; ++ulpdu) {
        if (vipl_mpa_pad(ulpdu) != pads[ulpdu % 4] ||
            vipl_mpa_fpdu_bytes(ulpdu) != 6 + ulpdu + pads[ulpdu % 4]) {
            FAIL(ulpdu);
        }
    }
    for (std::size_t ulpdu = 0; ulpdu < 100; ++ulpdu) {
        const Bytes fpdu = make_fpdu(some_ulpdu(ulpdu));
        REQUIRE(fpdu.size() == vipl_mpa_fpdu_bytes(ulpdu));
        REQUIRE(vipl_mpa_crc_is_right(fpdu.data(), fpdu.size()));
    }
}

TEST_CASE("one wrong bit anywhere is a wrong CRC", "[mpa]")
{
    for (const std::size_t ulpdu : {0, 1, 18, 301}) {
        const Bytes fpdu = make_fpdu(some_ulpdu(ulpdu));
        for (std::size_t bit = 0; bit < fpdu.size() * 8; ++bit) {
            Bytes wrong = fpdu;
            wrong[bit / 8] ^= static_cast<std::uint8_t>(1u << bit % 8);
            REQUIRE_FALSE(vipl_mpa_crc_is_right(wrong.data(), wrong.size()));
        }
    }
}

TEST_CASE("a truncated FPDU has no right CRC", "[mpa]")
{
    const Bytes fpdu = make_fpdu(some_ulpdu(61));
    for (std::size_t n = 0; n < fpdu.size(); ++n) {
        const Exact exact(fpdu.data(), n);
        REQUIRE_FALSE(vipl_mpa_crc_is_right(exact.get(), n));
    }
}

// --- markers -------------------------------------------------------------------------------------

TEST_CASE("marked FPDUs have these bytes on every CPU", "[mpa]")
{
    const Bytes fpdu = make_fpdu(bytes_of("aabbcc")); // 12 bytes
    std::uint32_t position = 0; // a marker comes before the first FPDU, and is under its CRC
    REQUIRE(hex(mark(fpdu, &position)) == "00000000"
                                          "0003aabbcc000000"
                                          "f2a70fb2");
    REQUIRE(position == 16);
    position = 504; // between pad and CRC, 8 bytes behind the length field
    REQUIRE(hex(mark(fpdu, &position)) == "0003aabbcc000000"
                                          "00000008"
                                          "adcc4a79");
    REQUIRE(position == 8);
    position = 500; // the FPDU ends where the marker is to be: that is the next one's
    REQUIRE(hex(mark(fpdu, &position)) == hex(fpdu));
    REQUIRE(position == 0);
    position = 496;
    REQUIRE(hex(mark(fpdu, &position)) == hex(fpdu));
    REQUIRE(position == 508);
    position = 0;
    REQUIRE(hex(mark(make_fpdu(bytes_of("aabbcc"), false), &position, false)) == "00000000"
                                                                                 "0003aabbcc000000"
                                                                                 "00000000");
}

TEST_CASE("a marker points to the length field, not to the marker before it", "[mpa]")
{
    Bytes ulpdu(510);
    for (std::size_t i = 0; i < ulpdu.size(); ++i) {
        ulpdu[i] = static_cast<std::uint8_t>(i);
    }
    const Bytes plain = bytes_of("01fe") + ulpdu;
    const Bytes expected = bytes_of("00000000") + Bytes(plain.begin(), plain.begin() + 508) +
                           bytes_of("000001fc") + Bytes(plain.begin() + 508, plain.end()) +
                           bytes_of("eb1424e1");
    std::uint32_t position = 0;
    const Bytes fpdu = make_fpdu(ulpdu);
    REQUIRE(hex(Bytes(fpdu.end() - 4, fpdu.end())) == "ea1ba243");
    REQUIRE(hex(mark(fpdu, &position)) == hex(expected));
    REQUIRE(position == 12);

    position = 0;
    const Unmarked back = unmark(expected, &position, fpdu.size());
    REQUIRE(hex(back.fpdu) == hex(fpdu));
    REQUIRE(back.taken == expected.size());
    REQUIRE(position == 12);
}

TEST_CASE("markers stand at every 512 bytes and come out again, for all sizes and positions", "[mpa]")
{
    for (std::size_t ulpdu = 0; ulpdu < 2200; ulpdu += ulpdu < 40 ? 1 : 53) {
        const Bytes fpdu = make_fpdu(some_ulpdu(ulpdu));
        for (std::uint32_t start = 0; start < VIPL_MPA_MARKER_SPACING; start += 4) {
            std::uint32_t position = start;
            const Bytes marked = mark(fpdu, &position);
            const auto places = marker_places(start, marked.size());
            bool right = marked.size() == fpdu.size() + 4 * places.size() &&
                         position == (start + marked.size()) % VIPL_MPA_MARKER_SPACING &&
                         vipl_mpa_crc_is_right(marked.data(), marked.size()); // it covers the markers
            for (const std::size_t at : places) {
                const std::size_t distance = at == 0 ? 0 : at - (places[0] == 0 ? 4 : 0);
                right = right && marked[at] == 0 && marked[at + 1] == 0 &&
                        (marked[at + 2] << 8 | marked[at + 3]) == static_cast<int>(distance);
            }
            std::uint32_t back_position = start;
            const Unmarked back = unmark(marked, &back_position, fpdu.size());
            if (!right || back.fpdu != fpdu || back.taken != marked.size() || back_position != position) {
                FAIL("ULPDU of " << ulpdu << " at " << start);
            }
        }
    }
}

TEST_CASE("the largest FPDU is marked within the room that is foretold", "[mpa]")
{
    const Bytes fpdu = make_fpdu(some_ulpdu(VIPL_MPA_MAX_ULPDU));
    for (const std::uint32_t start : {0u, 4u, 256u, 508u}) {
        std::uint32_t position = start, back_position = start;
        const Bytes marked = mark(fpdu, &position);
        REQUIRE(marked.size() <= vipl_mpa_marked_bytes(fpdu.size()));
        REQUIRE(unmark(marked, &back_position, fpdu.size()).fpdu == fpdu);
    }
    REQUIRE(vipl_mpa_marked_bytes(0) == 0);
    REQUIRE(vipl_mpa_marked_bytes(8) == 12);
    REQUIRE(vipl_mpa_marked_bytes(508) == 512);
    REQUIRE(vipl_mpa_marked_bytes(512) == 520);
}

TEST_CASE("markers are taken out in place", "[mpa]")
{
    const Bytes fpdu = make_fpdu(some_ulpdu(1500));
    std::uint32_t position = 0;
    Bytes marked = mark(fpdu, &position);
    const std::size_t length = marked.size();
    std::size_t taken = 0;
    bool bad = true;
    position = 0;
    REQUIRE(vipl_test::unmark_fpdu(marked.data(), length, marked.data(), length, &position, &taken, &bad) ==
            fpdu.size());
    REQUIRE(taken == length);
    REQUIRE_FALSE(bad);
    marked.resize(fpdu.size());
    REQUIRE(marked == fpdu);
}

TEST_CASE("a stream of marked FPDUs comes apart however it arrives", "[mpa]")
{
    std::mt19937 random(9);
    std::vector<Bytes> sent;
    Bytes stream;
    std::uint32_t position = 0;
    for (int i = 0; i < 60; ++i) {
        sent.push_back(make_fpdu(some_ulpdu(random() % (i % 4 == 0 ? 3000 : 120))));
        stream = stream + mark(sent.back(), &position);
    }
    position = 0;
    std::size_t at = 0, there = 0, received = 0;
    while (at < stream.size()) {
        const Unmarked u = unmark(Bytes(stream.begin() + at, stream.begin() + there), &position, 4000);
        REQUIRE_FALSE(u.bad);
        if (u.fpdu.empty()) {
            REQUIRE(there < stream.size());
            there = std::min<std::size_t>(there + 1 + random() % 200, stream.size());
            continue;
        }
        REQUIRE(u.fpdu == sent[received++]);
        at += u.taken;
    }
    REQUIRE(received == sent.size());
}

TEST_CASE("of a truncated marked FPDU nothing is taken", "[mpa]")
{
    for (const std::uint32_t start : {0u, 4u, 504u, 508u}) {
        std::uint32_t position = start;
        const Bytes marked = mark(make_fpdu(some_ulpdu(1100)), &position);
        for (std::size_t n = 0; n < marked.size(); ++n) {
            position = start;
            const Unmarked u = unmark(Bytes(marked.begin(), marked.begin() + n), &position, 2000);
            REQUIRE(u.fpdu.empty());
            REQUIRE_FALSE(u.bad);
            REQUIRE(u.taken == 0);
            REQUIRE(position == start);
        }
    }
}

TEST_CASE("a marker that points elsewhere is found as soon as it is there", "[mpa]")
{
    for (const std::uint32_t start : {0u, 100u, 508u}) {
        std::uint32_t position = start;
        const Bytes marked = mark(make_fpdu(some_ulpdu(1100)), &position);
        for (const std::size_t at : marker_places(start, marked.size())) {
            for (int bit = 0; bit < 32; ++bit) {
                Bytes wrong = marked;
                wrong[at + bit / 8] ^= static_cast<std::uint8_t>(0x80 >> bit % 8);
                position = start;
                const Unmarked whole = unmark(wrong, &position, 2000);
                const bool ignored = bit < 16 || bit >= 30; // the reserved bits, but for the CRC over them
                REQUIRE(whole.bad == !ignored);
                REQUIRE(position == (ignored ? (start + marked.size()) % 512 : start));
                if (ignored) {
                    REQUIRE_FALSE(vipl_mpa_crc_is_right(whole.fpdu.data(), whole.fpdu.size()));
                    continue;
                }
                position = start;
                wrong.resize(std::max<std::size_t>(at + 4, 2));
                REQUIRE(unmark(wrong, &position, 2000).bad);
            }
        }
    }
}

TEST_CASE("a wrong CRC is wrong without the markers too", "[mpa]")
{
    for (const std::uint32_t start : {0u, 480u}) {
        std::uint32_t position = start;
        const Bytes marked = mark(make_fpdu(some_ulpdu(100)), &position);
        const auto places = marker_places(start, marked.size());
        REQUIRE(places.size() == 1);
        for (std::size_t i = 0; i < marked.size(); ++i) {
            if (i - places[0] < 4 || i - (start == 0 ? 4 : 0) < 2) {
                continue; // markers and length: other tests'
            }
            Bytes wrong = marked;
            wrong[i] ^= 1;
            position = start;
            const Unmarked u = unmark(wrong, &position, 2000);
            REQUIRE(u.taken == marked.size());
            REQUIRE_FALSE(vipl_mpa_crc_is_right(u.fpdu.data(), u.fpdu.size()));
        }
    }
}

TEST_CASE("a marked FPDU that is larger than the room for it is bad, not awaited", "[mpa]")
{
    std::uint32_t position = 0;
    const Bytes fpdu = make_fpdu(some_ulpdu(700));
    const Bytes marked = mark(fpdu, &position);
    position = 0;
    REQUIRE(unmark(marked, &position, fpdu.size() - 1).bad);
    REQUIRE(unmark(Bytes(marked.begin(), marked.begin() + 6), &position, fpdu.size() - 1).bad);
    REQUIRE_FALSE(unmark(Bytes(marked.begin(), marked.begin() + 6), &position, fpdu.size()).bad);
    REQUIRE(position == 0);
}

TEST_CASE("pad bytes are zero whatever was there", "[mpa]")
{
    for (std::size_t ulpdu = 0; ulpdu < 16; ++ulpdu) {
        for (const bool with_crc : {false, true}) {
            Bytes to(8, 0xEE);
            const std::size_t pad = vipl_mpa_pad(ulpdu);
            REQUIRE(vipl_mpa_trailer_write(to.data(), ulpdu, 0, with_crc) == pad + VIPL_MPA_CRC_BYTES);
            REQUIRE(std::count(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(pad), 0) ==
                    static_cast<std::ptrdiff_t>(pad));
        }
    }
}
