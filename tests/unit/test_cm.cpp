// SPDX-License-Identifier: MIT
//
// Control messages of the card's driver: their bytes, and what is refused of what peers send.
#include <catch2/catch.hpp>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#define _Static_assert static_assert
extern "C" {
#include "backends/rnic/cm.h"
#include "rnic/registers.h"
}

namespace {

using Bytes = std::vector<std::uint8_t>;

cm_discriminator name(const std::string &text)
{
    cm_discriminator out = {};
    out.length = static_cast<std::uint16_t>(text.size());
    std::memcpy(out.bytes, text.data(), text.size());
    return out;
}

cm_message request()
{
    cm_message m = {};
    m.kind = RNIC_CONTROL_REQUEST;
    m.source_qp = 0x01020304;
    m.serial = 0x0A0B0C0D;
    m.to = name("to");
    m.from = name("sender");
    m.peer = true;
    m.params.max_transfer_size = 0x1122334455667788;
    m.params.reliability = VIP_SERVICE_RELIABLE_DELIVERY;
    m.params.rdma_read = true;
    m.ird = 7;
    m.ord = 8;
    return m;
}

Bytes write(const cm_message &m)
{
    std::uint8_t bytes[CM_MAX_BYTES];
    const std::size_t length = vipl_rnic_cm_write(&m, bytes);
    return {bytes, bytes + length};
}

bool reads(const Bytes &bytes, cm_message *out = nullptr)
{
    cm_message m;
    return vipl_rnic_cm_read(bytes.data(), bytes.size(), out == nullptr ? &m : out);
}

} // namespace

TEST_CASE("a request has the bytes that cm.h says", "[cm]")
{
    const Bytes expected = {1,    0,     0,    2,
                            1,    2,     3,    4,
                            0,    0,     0,    0,
                            0x0A, 0x0B,  0x0C, 0x0D,
                            't',  'o', // header, discriminator
                            1,    1 | 4, 0,    VIP_SERVICE_RELIABLE_DELIVERY,
                            0x11, 0x22,  0x33, 0x44,
                            0x55, 0x66,  0x77, 0x88,
                            7,    8,     0,    6,
                            's',  'e',   'n',  'd',
                            'e',  'r'};
    CHECK(write(request()) == expected);
}

TEST_CASE("every message is read as it was written", "[cm]")
{
    cm_message m = request();
    SECTION("a request")
    {
    }
    SECTION("a request with the longest names")
    {
        m.to = name(std::string(64, 'x'));
        m.from = name(std::string(64, '\0'));
        CHECK(write(m).size() == CM_MAX_BYTES);
    }
    SECTION("a request without names")
    {
        m.to = m.from = name("");
    }
    SECTION("an acceptance")
    {
        m.kind = RNIC_CONTROL_ACCEPT;
        m.destination_qp = 99;
        m.to = m.from = name("");
        m.peer = false;
        m.params.has_qos = m.params.rdma_write = m.params.is_32_bit = true;
        CHECK(write(m).size() == 32);
    }
    SECTION("a rejection, with a reason")
    {
        m = {};
        m.kind = RNIC_CONTROL_REJECT;
        m.reason = CM_DISAGREES;
        m.code = VIP_INVALID_MTU;
        CHECK(write(m).size() == 20);
    }
    SECTION("a cancellation")
    {
        m = {};
        m.kind = RNIC_CONTROL_CANCEL;
        m.reason = CM_ELSEWHERE;
        m.destination_qp = 4;
        m.to = name("where");
    }
    SECTION("readiness")
    {
        m = {};
        m.kind = RNIC_CONTROL_READY;
        m.serial = 5;
        CHECK(write(m).size() == 16);
    }
    cm_message out;
    REQUIRE(reads(write(m), &out));
    CHECK(out.kind == m.kind);
    CHECK(out.reason == m.reason);
    CHECK(out.source_qp == m.source_qp);
    CHECK(out.destination_qp == m.destination_qp);
    CHECK(out.serial == m.serial);
    CHECK(out.code == m.code);
    CHECK(out.peer == m.peer);
    CHECK(out.to.length == m.to.length);
    CHECK(std::memcmp(out.to.bytes, m.to.bytes, m.to.length) == 0);
    CHECK(out.from.length == m.from.length);
    CHECK(std::memcmp(out.from.bytes, m.from.bytes, m.from.length) == 0);
    CHECK(out.params.max_transfer_size == m.params.max_transfer_size);
    CHECK(out.params.reliability == m.params.reliability);
    CHECK(out.params.rdma_write == m.params.rdma_write);
    CHECK(out.params.rdma_read == m.params.rdma_read);
    CHECK(out.params.has_qos == m.params.has_qos);
    CHECK(out.params.is_32_bit == m.params.is_32_bit);
    CHECK(out.ird == m.ird);
    CHECK(out.ord == m.ord);
}

TEST_CASE("a message that is cut off, or too long, is none", "[cm]")
{
    cm_message m = request();
    m.kind = GENERATE(std::uint8_t{RNIC_CONTROL_REQUEST}, std::uint8_t{RNIC_CONTROL_ACCEPT},
                      std::uint8_t{RNIC_CONTROL_REJECT}, std::uint8_t{RNIC_CONTROL_CANCEL},
                      std::uint8_t{RNIC_CONTROL_READY}, std::uint8_t{RNIC_CONTROL_DISCONNECT});
    m.reason = m.kind == RNIC_CONTROL_REJECT ? CM_DISAGREES : 0;
    m.from = m.kind == RNIC_CONTROL_ACCEPT ? name("") : m.from;
    const Bytes whole = write(m);
    REQUIRE(reads(whole));
    for (std::size_t length = 0; length < whole.size(); ++length) {
        CHECK_FALSE(reads(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))));
    }
    Bytes longer = whole;
    longer.push_back(0);
    CHECK_FALSE(reads(longer));
}

TEST_CASE("a message with a value that there is not is none", "[cm]")
{
    Bytes bytes = write(request());
    const std::size_t attributes = 18;
    SECTION("no such kind")
    {
        bytes[0] = 0;
    }
    SECTION("a kind to come")
    {
        bytes[0] = 8;
    }
    SECTION("a name longer than any")
    {
        bytes[3] = 65;
    }
    SECTION("a name longer than the message")
    {
        bytes[2] = 1;
    }
    SECTION("another version")
    {
        bytes[attributes] = 2;
    }
    SECTION("an unknown flag")
    {
        bytes[attributes + 1] |= 0x20;
    }
    SECTION("no level")
    {
        bytes[attributes + 3] = 0;
    }
    SECTION("two levels")
    {
        bytes[attributes + 3] = 3;
    }
    SECTION("a sender's name longer than the rest")
    {
        bytes[attributes + 15] = 7;
    }
    SECTION("a sender's name longer than any")
    {
        bytes[attributes + 14] = 0xFF;
    }
    CHECK_FALSE(reads(bytes));
}

TEST_CASE("a rejection or refusal without a known reason is none", "[cm]")
{
    Bytes bytes(16);
    for (unsigned reason = 0; reason < 256; ++reason) {
        bytes[1] = static_cast<std::uint8_t>(reason);
        bytes[0] = RNIC_CONTROL_REJECT;
        CHECK(reads(bytes) == (reason >= CM_REJECTED && reason <= CM_PENDING && reason != CM_DISAGREES));
        bytes[0] = RNIC_CONTROL_REFUSED;
        CHECK(reads(bytes) == (reason == RNIC_REFUSED_NO_LISTENER || reason == RNIC_REFUSED_BUSY));
    }
}

TEST_CASE("what is read of random bytes is written as the same bytes", "[cm]")
{
    std::mt19937 random(1);
    const Bytes whole = write(request());
    unsigned good = 0;
    for (unsigned i = 0; i < 200000; ++i) {
        Bytes bytes = whole;
        for (unsigned j = 0; j < 3; ++j) {
            bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random() % 9);
        }
        bytes.resize(random() % 4 == 0 ? random() % 60 : bytes.size());
        cm_message m;
        if (reads(bytes, &m) && m.kind == RNIC_CONTROL_REQUEST) {
            ++good;
            REQUIRE(write(m) == bytes);
        }
    }
    CHECK(good > 100);
}
