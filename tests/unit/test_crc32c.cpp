// SPDX-License-Identifier: MIT
//
// CRC32C: the RFC's vectors, the processor's instruction and the tables against one another and
// against the definition, a bit at a time.
#include <catch2/catch.hpp>

#include <random>

#include "bytes.hpp"

extern "C" {
#include "iwarp/crc32c.h"
}

using namespace unit;

namespace {

Bytes random_bytes(std::size_t length)
{
    std::mt19937 random(7);
    Bytes bytes(length);
    for (auto &byte : bytes) {
        byte = static_cast<std::uint8_t>(random());
    }
    return bytes;
}

/** The definition. */
std::uint32_t crc_by_bit(const std::uint8_t *bytes, std::size_t length)
{
    std::uint32_t crc = 0xFFFFFFFF;
    for (std::size_t i = 0; i < length; ++i) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; ++bit) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
        }
    }
    return ~crc;
}

void require_crc(const Bytes &bytes, std::uint32_t crc)
{
    REQUIRE(crc_by_bit(bytes.data(), bytes.size()) == crc);
    REQUIRE(vipl_crc32c(0, bytes.data(), bytes.size()) == crc);
    REQUIRE(vipl_crc32c_table(0, bytes.data(), bytes.size()) == crc);
}

} // namespace

TEST_CASE("RFC 3720 B.4's examples have its CRCs", "[crc32c]")
{
    Bytes up(32), down(32);
    for (std::size_t i = 0; i < 32; ++i) {
        up[i] = static_cast<std::uint8_t>(i);
        down[i] = static_cast<std::uint8_t>(31 - i);
    }
    // The RFC shows the bytes on the wire, the lowest first: aa 36 91 8a, ...
    require_crc(Bytes(32, 0x00), 0x8A9136AA);
    require_crc(Bytes(32, 0xFF), 0x62A8AB43);
    require_crc(up, 0x46DD794E);
    require_crc(down, 0x113FDB5C);
    require_crc(bytes_of("01c00000 00000000 00000000 00000000 14000000 00000400"
                         "00000014 00000018 28000000 00000000 02000000 00000000"),
                0xD9963A56);
    require_crc(bytes_of("313233343536373839"), 0xE3069283); // "123456789", everyone's check
}

TEST_CASE("the CRC of nothing is zero, and nothing changes no CRC", "[crc32c]")
{
    REQUIRE(vipl_crc32c(0, nullptr, 0) == 0);
    REQUIRE(vipl_crc32c_table(0, nullptr, 0) == 0);
    REQUIRE(vipl_crc32c(0x12345678, nullptr, 0) == 0x12345678);
    REQUIRE(vipl_crc32c_table(0x12345678, nullptr, 0) == 0x12345678);
}

TEST_CASE("instruction, tables and definition agree at every alignment and length", "[crc32c]")
{
    const Bytes bytes = random_bytes(320);
    unsigned wrong = 0;
    for (std::size_t length = 0; length <= 300; ++length) {
        for (std::size_t offset = 0; offset < 16; ++offset) {
            // The piece ends where its memory does.
            const Exact copy(bytes.data(), offset + length);
            const std::uint8_t *at = copy.get() + offset;
            const std::uint32_t crc = crc_by_bit(at, length);
            wrong += vipl_crc32c(0, at, length) != crc ? 1 : 0;
            wrong += vipl_crc32c_table(0, at, length) != crc ? 1 : 0;
        }
    }
    REQUIRE(wrong == 0);
}

TEST_CASE("every bit of every byte of a step counts", "[crc32c]")
{
    unsigned wrong = 0;
    for (std::size_t bit = 0; bit < 24 * 8; ++bit) {
        Bytes bytes(24, 0);
        bytes[bit / 8] = static_cast<std::uint8_t>(1u << bit % 8);
        const std::uint32_t crc = crc_by_bit(bytes.data(), bytes.size());
        wrong += vipl_crc32c(0, bytes.data(), bytes.size()) != crc ? 1 : 0;
        wrong += vipl_crc32c_table(0, bytes.data(), bytes.size()) != crc ? 1 : 0;
    }
    REQUIRE(wrong == 0);
}

TEST_CASE("a CRC goes on where it was left, however the bytes are split", "[crc32c]")
{
    const Bytes bytes = random_bytes(5000);
    const std::uint32_t whole = crc_by_bit(bytes.data(), bytes.size());
    std::mt19937 random(8);
    for (int round = 0; round < 200; ++round) {
        std::uint32_t crc = 0, by_table = 0;
        std::size_t at = 0;
        while (at < bytes.size()) {
            const std::size_t piece =
                std::min<std::size_t>(random() % (round % 2 == 0 ? 20 : 900), bytes.size() - at);
            crc = vipl_crc32c(crc, bytes.data() + at, piece);
            by_table = vipl_crc32c_table(by_table, bytes.data() + at, piece);
            at += piece;
        }
        REQUIRE(crc == whole);
        REQUIRE(by_table == whole);
    }
}
