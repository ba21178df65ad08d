// SPDX-License-Identifier: MIT
//
// The frame: its bytes as the data sheet has them, and everything that makes bytes no frame.
#include <catch2/catch.hpp>

#include "frames.hpp"
#include "rnic/registers.h"
#include "unit/bytes.hpp"

using namespace unit;
using adapters::frame_of;

namespace {

efe_header some_header()
{
    efe_header header{};
    const std::uint8_t to[6] = {0x02, 0x10, 0x11, 0x12, 0x13, 0x14},
                       from[6] = {0x02, 0x20, 0x21, 0x22, 0x23, 0x24};
    std::copy(to, to + 6, header.to_mac);
    std::copy(from, from + 6, header.from_mac);
    header.type = EFE_DATA;
    header.flags = EFE_FIRST | EFE_ACK_NOW;
    header.payload_bytes = 5;
    header.from_fn = 0x3031;
    header.to_fn = 0x4041;
    header.epoch = 0x50515253;
    header.sequence = 0x60616263;
    header.next_expected = 0x70717273;
    header.window = 0x0100;
    header.to_qp = 0x8081;
    header.from_qp = 0x9091;
    header.left = 0xA0A1A2A3;
    header.message = 0xB0B1B2B3;
    header.sent = 0xC0C1C2C3;
    header.echo = 0xD0D1D2D3;
    header.held = 0xE0E1E2E3;
    return header;
}

efe_fault fault_of(const Bytes &frame)
{
    const Exact exact(frame);
    efe_header header{};
    return efe_frame_read(exact.get(), frame.size(), &header);
}

/** The frame with another byte somewhere, and the CRC that it then has. */
Bytes changed(Bytes frame, std::size_t at, std::uint8_t byte)
{
    frame[at] = byte;
    efe_frame_seal(frame.data());
    return frame;
}

// The CRC32C was worked out apart from this code, by tests/fuzz/make_corpus.py's crc32c().
const char kFrame[] = "021011121314 022021222324 88b5"
                      "11 a0 0005 3031 4041 50515253 60616263 70717273 0100 8081 9091 0000"
                      "a0a1a2a3 b0b1b2b3 c0c1c2c3 d0d1d2d3 e0e1e2e3"
                      "48454c4c4f f6cdcfe0";

} // namespace

TEST_CASE("a frame has the bytes of the data sheet's table", "[efe][frame]")
{
    const Bytes frame = frame_of(some_header(), {'H', 'E', 'L', 'L', 'O'});
    CHECK(hex(frame) == hex(bytes_of(kFrame)));
}

TEST_CASE("the description of the registers has the frame's header as it is", "[efe][frame]")
{
    const std::vector<int> described = {RNIC_EFE_TYPE_DATA,        RNIC_EFE_TYPE_ACK,   RNIC_EFE_TYPE_CONTROL,
                                        RNIC_EFE_TYPE_MESSAGE_ACK, RNIC_EFE_TYPE_PROBE, RNIC_EFE_TYPE_RESET,
                                        RNIC_EFE_FLAG_FIRST,       RNIC_EFE_FLAG_LAST,  RNIC_EFE_FLAG_ACK_NOW,
                                        RNIC_EFE_FLAG_NEW};
    const std::vector<int> known = {EFE_DATA,  EFE_ACK,   EFE_CONTROL, EFE_MESSAGE_ACK, EFE_PROBE,
                                    EFE_RESET, EFE_FIRST, EFE_LAST,    EFE_ACK_NOW,     EFE_NEW};
    CHECK(described == known);
    const Bytes frame = bytes_of(kFrame);
    const auto number = [&](int offset, int bytes) {
        std::uint64_t value = 0;
        for (int i = 0; i < bytes; ++i) {
            value = value << 8 | frame[static_cast<std::size_t>(EFE_ETHERNET_BYTES + offset + i)];
        }
        return value;
    };
    const efe_header header = some_header();
    CHECK(number(RNIC_EFE_VERSION_TYPE, 1) == (EFE_VERSION << 4 | header.type));
    CHECK(number(RNIC_EFE_FLAGS, 1) == header.flags);
    CHECK(number(RNIC_EFE_PAYLOAD, 2) == header.payload_bytes);
    CHECK(number(RNIC_EFE_SOURCE_FUNCTION, 2) == header.from_fn);
    CHECK(number(RNIC_EFE_DESTINATION_FUNCTION, 2) == header.to_fn);
    CHECK(number(RNIC_EFE_EPOCH, 4) == header.epoch);
    CHECK(number(RNIC_EFE_SEQUENCE, 4) == header.sequence);
    CHECK(number(RNIC_EFE_NEXT, 4) == header.next_expected);
    CHECK(number(RNIC_EFE_WINDOW, 2) == header.window);
    CHECK(number(RNIC_EFE_DESTINATION_QP, 2) == header.to_qp);
    CHECK(number(RNIC_EFE_SOURCE_QP, 2) == header.from_qp);
    CHECK(number(RNIC_EFE_LEFT, 4) == header.left);
    CHECK(number(RNIC_EFE_MESSAGE, 4) == header.message);
    CHECK(number(RNIC_EFE_SENT, 4) == header.sent);
    CHECK(number(RNIC_EFE_ECHO, 4) == header.echo);
    CHECK(number(RNIC_EFE_HELD, 4) == header.held);
}

TEST_CASE("a frame that is read has the fields that were written", "[efe][frame]")
{
    efe_header read{};
    const Bytes frame = bytes_of(kFrame), padded = frame + Bytes(40, 0xEE);
    REQUIRE(efe_frame_read(padded.data(), padded.size(), &read) == EFE_FRAME_OK);
    CHECK(frame_of(read, {'H', 'E', 'L', 'L', 'O'}) == frame);
    const efe_header header = some_header();
    CHECK(std::equal(read.to_mac, read.to_mac + 6, header.to_mac));
    CHECK(read.held == header.held);
    CHECK(read.window == header.window);
}

TEST_CASE("a frame that is cut anywhere is none", "[efe][frame]")
{
    const Bytes frame = bytes_of(kFrame);
    for (std::size_t bytes = 0; bytes < frame.size(); ++bytes) {
        CAPTURE(bytes);
        CHECK(fault_of(Bytes(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(bytes))) ==
              EFE_FAULT_SHORT);
    }
}

TEST_CASE("a flipped bit anywhere in a frame is found, and leaves the result alone", "[efe][frame]")
{
    const Bytes frame = bytes_of(kFrame);
    for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
        Bytes bad = frame;
        bad[bit / 8] = static_cast<std::uint8_t>(bad[bit / 8] ^ 1u << bit % 8);
        CAPTURE(bit);
        CHECK(fault_of(bad) != EFE_FRAME_OK);
    }
    efe_header header = some_header();
    Bytes bad = frame;
    bad.back() ^= 1;
    header.epoch = 7;
    CHECK(efe_frame_read(bad.data(), bad.size(), &header) == EFE_FAULT_CRC);
    CHECK(header.epoch == 7);
}

TEST_CASE("what is right by its CRC and wrong otherwise is named", "[efe][frame]")
{
    const Bytes frame = bytes_of(kFrame);
    CHECK(fault_of(changed(frame, 13, 0xB6)) == EFE_FAULT_ETHERTYPE);
    CHECK(fault_of(changed(frame, 14, 0x01)) == EFE_FAULT_VERSION);
    CHECK(fault_of(changed(frame, 14, 0x21)) == EFE_FAULT_VERSION);
    CHECK(fault_of(changed(frame, 14, 0x10)) == EFE_FAULT_TYPE);
    for (unsigned type = 7; type < 16; ++type) {
        CHECK(fault_of(changed(frame, 14, static_cast<std::uint8_t>(0x10 | type))) == EFE_FAULT_TYPE);
    }
    for (const unsigned type : {EFE_ACK, EFE_PROBE, EFE_RESET}) {
        CHECK(fault_of(changed(frame, 14, static_cast<std::uint8_t>(0x10 | type))) == EFE_FAULT_LENGTH);
    }
    efe_header header = some_header();
    header.type = EFE_ACK;
    for (const std::uint16_t bytes : {0, 31, 33}) {
        header.payload_bytes = bytes;
        CHECK(fault_of(frame_of(header)) == EFE_FAULT_LENGTH);
    }
    header.payload_bytes = EFE_SACK_BYTES;
    CHECK(fault_of(frame_of(header)) == EFE_FRAME_OK);
    header.type = EFE_DATA;
    header.payload_bytes = 0;
    CHECK(fault_of(frame_of(header)) == EFE_FRAME_OK);
}

TEST_CASE("bits that are reserved are passed over", "[efe][frame]")
{
    efe_header header{};
    const Bytes frame = changed(changed(bytes_of(kFrame), 15, 0xAF), 40, 0xFF);
    REQUIRE(efe_frame_read(frame.data(), frame.size(), &header) == EFE_FRAME_OK);
    CHECK(header.flags == (EFE_FIRST | EFE_ACK_NOW));
}

TEST_CASE("a selective acknowledgment has the frame after next_expected in its second highest bit",
          "[efe][frame]")
{
    std::uint8_t sack[EFE_SACK_BYTES] = {0};
    efe_sack_set(sack, 1);
    efe_sack_set(sack, 8);
    efe_sack_set(sack, 255);
    CHECK(sack[0] == 0x40);
    CHECK(sack[1] == 0x80);
    CHECK(sack[31] == 0x01);
    CHECK(efe_sack_get(sack, 255));
    CHECK_FALSE(efe_sack_get(sack, 254));
}
