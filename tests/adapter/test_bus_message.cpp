// SPDX-License-Identifier: MIT
//
// The messages of the bus protocol, byte by byte as docs/rnic/socket.md has them.
#include <catch2/catch.hpp>

#include <cstring>
#include <vector>

extern "C" {
#include "bus/message.h"
}

namespace {

using Bytes = std::vector<std::uint8_t>;

rnic_bus_message message(unsigned kind, std::uint32_t data = 0)
{
    rnic_bus_message m{};
    m.bytes = BUS_HEADER_BYTES + data;
    m.kind = static_cast<std::uint16_t>(kind);
    return m;
}

rnic_bus_message access(unsigned kind, unsigned width, unsigned space, std::uint64_t address)
{
    rnic_bus_message m = message(kind);
    m.width = static_cast<std::uint16_t>(width);
    m.space = static_cast<std::uint8_t>(space);
    m.address = address;
    return m;
}

rnic_bus_message dma_read(std::uint64_t address, std::uint64_t bytes)
{
    rnic_bus_message m = message(BUS_DMA_READ);
    m.address = address;
    m.value = bytes;
    return m;
}

rnic_bus_message dma_write(std::uint64_t address, std::uint32_t bytes)
{
    rnic_bus_message m = message(BUS_DMA_WRITE, bytes);
    m.address = address;
    return m;
}

bool may(const rnic_bus_message &m, bool from_card)
{
    return rnic_bus_message_check(&m, from_card) == nullptr;
}

} // namespace

TEST_CASE("a header of the bus protocol is forty little-endian bytes", "[rnic_bus_message]")
{
    const rnic_bus_message m = {0x01020304, 0x0506, 0x0708, 0x1112131415161718, 0x21222324,
                                0x3132,     0x41,   0x51,   0x6162636465666768, 0x7172737475767778};
    std::uint8_t bytes[BUS_HEADER_BYTES];
    std::memset(bytes, 0xEE, sizeof bytes);
    rnic_bus_message_write(bytes, &m);
    const Bytes wanted = {0x04, 0x03, 0x02, 0x01, 0x06, 0x05, 0x08, 0x07, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13,
                          0x12, 0x11, 0x24, 0x23, 0x22, 0x21, 0x32, 0x31, 0x41, 0x51, 0x68, 0x67, 0x66, 0x65,
                          0x64, 0x63, 0x62, 0x61, 0x78, 0x77, 0x76, 0x75, 0x74, 0x73, 0x72, 0x71};
    CHECK(Bytes(bytes, bytes + sizeof bytes) == wanted);
    rnic_bus_message back{};
    rnic_bus_message_read(bytes, &back);
    CHECK((back.bytes == m.bytes && back.kind == m.kind && back.function == m.function));
    CHECK((back.time == m.time && back.id == m.id && back.width == m.width && back.space == m.space));
    CHECK((back.status == m.status && back.address == m.address && back.value == m.value));
}

TEST_CASE("each end sends its own kinds of messages, and no others", "[rnic_bus_message]")
{
    struct {
        unsigned kind;
        bool host, card;
    } const kinds[] = {{0, false, false},  {1, true, true}, // HELLO
                       {2, true, false},                    // READ
                       {3, true, false},                    // WRITE
                       {4, true, false},                    // RESET
                       {5, false, true},                    // DONE
                       {6, false, true},                    // DMA_READ
                       {7, true, false},                    // DMA_DATA
                       {8, false, true},                    // DMA_WRITE
                       {9, false, true},                    // INTERRUPT
                       {10, true, true},                    // BYE
                       {11, false, false}, {UINT16_MAX, false, false}};
    for (const auto &k : kinds) {
        rnic_bus_message m = access(k.kind, 4, 0, 0);
        m.value = 1;
        m.bytes += k.kind == BUS_DMA_WRITE ? 1 : 0;
        INFO(k.kind);
        CHECK(may(m, false) == k.host);
        CHECK(may(m, true) == k.card);
    }
}

TEST_CASE("a message has a length that its kind may have", "[rnic_bus_message]")
{
    for (unsigned kind = BUS_HELLO; kind <= BUS_BYE; ++kind) {
        const bool from_card = kind == BUS_HELLO || kind == BUS_DONE || kind == BUS_DMA_READ ||
                               kind == BUS_DMA_WRITE || kind == BUS_INTERRUPT;
        const std::uint32_t most = kind == BUS_HELLO                               ? 48
                                   : kind == BUS_DMA_DATA || kind == BUS_DMA_WRITE ? 4096
                                                                                   : 0;
        rnic_bus_message m = access(kind, 4, 0, 0);
        m.value = 1;
        INFO(kind);
        for (const std::uint32_t bytes : {0u, 39u, 41u + most, 0x80000000u, UINT32_MAX}) {
            m.bytes = bytes;
            CHECK_FALSE(may(m, from_card));
        }
        m.bytes = 40 + most;
        CHECK(may(m, from_card));
    }
    CHECK(may(message(BUS_HELLO), false));
    CHECK_FALSE(may(message(BUS_HELLO, 48), false)); // a host has no BARs
    rnic_bus_message refusal = message(BUS_DMA_DATA, 1);
    refusal.status = 1;
    CHECK_FALSE(may(refusal, false));
}

TEST_CASE("a register access has a width, is aligned, and lies in a space", "[rnic_bus_message]")
{
    for (const unsigned kind : {BUS_READ, BUS_WRITE}) {
        for (const unsigned width : {0u, 3u, 5u, 6u, 7u, 9u, 16u, 256u}) {
            CHECK_FALSE(may(access(kind, width, 0, 0), false));
        }
        for (const unsigned width : {1u, 2u, 4u, 8u}) {
            CHECK(may(access(kind, width, 2, 0x40), false));
            CHECK(may(access(kind, width, 2, 0x41), false) == (width == 1));
            CHECK(may(access(kind, width, 2, 0x42), false) == (width <= 2));
            CHECK(may(access(kind, width, 2, 0x44), false) == (width <= 4));
        }
        for (unsigned space = 0; space <= UINT8_MAX; ++space) {
            CHECK(may(access(kind, 4, space, 0), false) == (space < 6 || space == 7));
        }
    }
}

TEST_CASE("a DMA has 1 to 4,096 bytes and does not run over the end of the addresses", "[rnic_bus_message]")
{
    CHECK_FALSE(may(dma_read(0x1000, 0), true));
    CHECK_FALSE(may(dma_read(0, 0), true));
    CHECK_FALSE(may(dma_write(0, 0), true));
    CHECK(may(dma_read(0x1000, 1), true));
    CHECK(may(dma_read(0x1000, 4096), true));
    CHECK_FALSE(may(dma_read(0x1000, 4097), true));
    CHECK_FALSE(may(dma_read(0x1000, (UINT64_C(1) << 32) + 1), true));
    CHECK(may(dma_read(UINT64_MAX, 1), true));
    CHECK_FALSE(may(dma_read(UINT64_MAX, 2), true));
    CHECK_FALSE(may(dma_write(0x1000, 0), true));
    CHECK(may(dma_write(0x1000, 4096), true));
    CHECK(may(dma_write(UINT64_MAX - 4095, 4096), true));
    CHECK_FALSE(may(dma_write(UINT64_MAX - 4094, 4096), true));
}

TEST_CASE("only an answer has a status", "[rnic_bus_message]")
{
    for (unsigned kind = BUS_HELLO; kind <= BUS_BYE; ++kind) {
        const bool answers = kind == BUS_HELLO || kind == BUS_DONE || kind == BUS_DMA_DATA;
        const bool from_card = kind == BUS_HELLO || kind == BUS_DONE || kind == BUS_DMA_READ ||
                               kind == BUS_DMA_WRITE || kind == BUS_INTERRUPT;
        rnic_bus_message m = access(kind, 4, 0, 0);
        m.value = 1;
        m.bytes += kind == BUS_DMA_WRITE ? 1 : 0;
        INFO(kind);
        m.status = 1;
        CHECK(may(m, from_card) == answers);
        m.status = 2;
        CHECK_FALSE(may(m, from_card));
    }
    rnic_bus_message hello = message(BUS_HELLO);
    hello.status = 1;
    CHECK_FALSE(may(hello, false));
}
