// SPDX-License-Identifier: MIT
//
// The packets of connecting: golden bytes, which are the same on every CPU but for the three that
// say what CPU it is; every truncation; ten thousand mutations.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "internal.hpp"

using namespace unit;

namespace {

std::string hex(const std::uint8_t *bytes, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    std::string text;
    for (size_t i = 0; i < length; ++i) {
        text += digits[bytes[i] >> 4];
        text += digits[bytes[i] & 15];
    }
    return text;
}

lo_connect_request some_request()
{
    lo_connect_request h{};
    h.writer = {1, 2, 4};
    h.peer = true;
    for (unsigned i = 0; i < LO_UID; ++i) {
        h.process[i] = static_cast<std::uint8_t>(0x10 + i);
        h.nic[i] = static_cast<std::uint8_t>(0x20 + i);
    }
    h.id = 0x0102030405060708;
    h.mark.address = 0x1112131415161718;
    h.mark.value = 0x21222324;
    h.tag = 0x31323334;
    h.generation = 0x00151617;
    h.slot = 0x0a0b;
    h.number = 0x0c;
    h.place = 0x0d;
    h.params = {0x4142434445464748, 2, true, false, true, false, sizeof(void *) == 4};
    h.local.host_len = 6;
    h.local.disc_len = 2;
    std::memcpy(h.local.host, "\x7f\0\0\1\0\0", 6);
    std::memcpy(h.local.disc, "ab", 2);
    h.remote = h.local;
    h.remote.disc_len = 3;
    std::memcpy(h.remote.disc, "xyz", 3);
    return h;
}

std::string zeros(unsigned bytes)
{
    return std::string(2 * bytes, '0');
}

/** Copies the bytes to memory of exactly that size, so that a checker sees a read beyond. */
template <class Packet>
bool read_exactly(bool (*read)(Packet *, const std::uint8_t *, size_t), Packet *out,
                  const std::uint8_t *bytes, size_t length)
{
    const std::unique_ptr<std::uint8_t[]> exact(new std::uint8_t[length == 0 ? 1 : length]);
    std::memcpy(exact.get(), bytes, length);
    return read(out, exact.get(), length);
}

bool address_in_bounds(const vipl_address &a)
{
    return a.host_len <= sizeof a.host && a.disc_len <= sizeof a.disc;
}

} // namespace

TEST_CASE("a request has these bytes on every CPU", "[packets]")
{
    std::uint8_t bytes[LO_PACKET];
    const lo_connect_request h = some_request();
    const size_t length = vipl_lo_connect_request_write(&h, bytes);
    const std::string host = "7f0000010000" + zeros(10);
    REQUIRE(hex(bytes, length) == "564c4352"                         // VLCR
                                  "01020401"                         // version, order, word, symmetric
                                  "101112131415161718191a1b1c1d1e1f" // process
                                  "202122232425262728292a2b2c2d2e2f" // NIC handle
                                  "0102030405060708"                 // id
                                  "1112131415161718"                 // probe address
                                  "21222324"                         // probe value
                                  "31323334"                         // tag
                                  "00151617"                         // generation
                                  "0a0b0c0d"                         // slot, number, place
                                  "4142434445464748000205"           // params
                                  "00060002" +
                                      host + "6162" + zeros(62) +                // local
                                      "00060003" + host + "78797a" + zeros(61)); // remote
}

TEST_CASE("a reply has these bytes on every CPU", "[packets]")
{
    std::uint8_t bytes[LO_PACKET];
    lo_reply a{};
    a.type = LO_REPLY_ACCEPT;
    a.code = 9;
    a.new_link = true;
    for (unsigned i = 0; i < LO_UID; ++i) {
        a.nic[i] = static_cast<std::uint8_t>(0x20 + i);
    }
    a.link = 0x0102030405060708;
    a.slots = 1024;
    a.session = 0x00001001;
    a.tag = 5;
    a.mark.value = 0x21222324;
    a.mark.address = 0x1112131415161718;
    a.params = {65536, 4, false, true, false, false, sizeof(void *) == 4};
    a.generation = 0x00012345;
    a.slot = 0x0678;
    a.number = 9;
    const size_t length = vipl_lo_reply_write(&a, bytes);
    REQUIRE(hex(bytes, length) == "564c5245"
                                  "07090100"
                                  "202122232425262728292a2b2c2d2e2f"
                                  "0102030405060708"
                                  "00000400"
                                  "00001001"
                                  "00000005"
                                  "21222324"
                                  "1112131415161718"
                                  "0000000000010000000402"
                                  "00012345"
                                  "0678"
                                  "09");
}

TEST_CASE("what is written is read back", "[packets]")
{
    std::uint8_t bytes[LO_PACKET], again[LO_PACKET];
    lo_connect_request h = some_request(), seen{};
    h.writer = vipl_lo_own_kind();
    const size_t length = vipl_lo_connect_request_write(&h, bytes);
    REQUIRE(vipl_lo_connect_request_read(&seen, bytes, length));
    REQUIRE(vipl_lo_writer_fits(&seen.writer));
    REQUIRE(hex(again, vipl_lo_connect_request_write(&seen, again)) == hex(bytes, length));
}

TEST_CASE("a notice has these bytes on every CPU, and is read back", "[packets]")
{
    std::uint8_t bytes[LO_PACKET];
    lo_notice n{}, seen{};
    n.writer = {1, 2, 4};
    n.place = 13;
    REQUIRE(hex(bytes, vipl_lo_notice_write(&n, bytes)) == "564c4e4f0102040d");
    REQUIRE(vipl_lo_notice_read(&seen, bytes, 7)); // of another CPU: as far as to refuse it
    REQUIRE_FALSE(vipl_lo_writer_fits(&seen.writer));
    n.writer = vipl_lo_own_kind();
    const size_t length = vipl_lo_notice_write(&n, bytes);
    REQUIRE(vipl_lo_notice_read(&seen, bytes, length));
    REQUIRE(vipl_lo_writer_fits(&seen.writer));
    REQUIRE(seen.place == 13);
    for (size_t short_of = 0; short_of < length; ++short_of) {
        REQUIRE_FALSE(read_exactly(vipl_lo_notice_read, &seen, bytes, short_of));
    }
}

TEST_CASE("a request of another CPU or version is read as far as to refuse it", "[packets]")
{
    std::uint8_t bytes[LO_PACKET];
    for (int spoiled = 0; spoiled < 3; ++spoiled) {
        lo_connect_request h = some_request(), seen{};
        h.writer = vipl_lo_own_kind();
        lo_writer &w = h.writer;
        (spoiled == 0 ? w.version : spoiled == 1 ? w.byte_order : w.word_bytes) ^= 0x40;
        vipl_lo_connect_request_write(&h, bytes);
        REQUIRE(read_exactly(vipl_lo_connect_request_read, &seen, bytes,
                             7)); // what follows may look different there
        REQUIRE_FALSE(vipl_lo_writer_fits(&seen.writer));
        REQUIRE(seen.writer.version == h.writer.version);
        REQUIRE(seen.writer.byte_order == h.writer.byte_order);
        REQUIRE(seen.writer.word_bytes == h.writer.word_bytes);
    }
}

TEST_CASE("no truncated packet is taken for a whole one", "[packets]")
{
    std::uint8_t bytes[LO_PACKET];
    lo_connect_request h = some_request(), seen{};
    h.writer = vipl_lo_own_kind();
    const size_t length = vipl_lo_connect_request_write(&h, bytes);
    for (size_t n = 0; n < length; ++n) {
        REQUIRE_FALSE(read_exactly(vipl_lo_connect_request_read, &seen, bytes, n));
    }
    lo_reply a{}, seen_reply{};
    a.type = LO_REPLY_REJECT;
    const size_t reply_length = vipl_lo_reply_write(&a, bytes);
    for (size_t n = 0; n < reply_length; ++n) {
        REQUIRE_FALSE(read_exactly(vipl_lo_reply_read, &seen_reply, bytes, n));
    }
}

TEST_CASE("addresses longer than their fields are refused", "[packets]")
{
    std::uint8_t bytes[LO_PACKET];
    lo_connect_request h = some_request(), seen{};
    h.writer = vipl_lo_own_kind();
    for (const unsigned host_len : {17u, 255u, 65535u}) {
        h.local.host_len = static_cast<std::uint16_t>(host_len);
        REQUIRE_FALSE(vipl_lo_connect_request_read(&seen, bytes, vipl_lo_connect_request_write(&h, bytes)));
    }
    h.local.host_len = 16;
    REQUIRE(vipl_lo_connect_request_read(&seen, bytes, vipl_lo_connect_request_write(&h, bytes)));
    for (const unsigned disc_len : {65u, 65535u}) {
        h.remote.disc_len = static_cast<std::uint16_t>(disc_len);
        REQUIRE_FALSE(vipl_lo_connect_request_read(&seen, bytes, vipl_lo_connect_request_write(&h, bytes)));
    }
}

TEST_CASE("ten thousand mutated packets are read within bounds or refused", "[packets]")
{
    Random random(2);
    std::uint8_t bytes[LO_PACKET];
    lo_connect_request h = some_request();
    h.writer = vipl_lo_own_kind();
    lo_reply a{};
    a.type = LO_REPLY_ACCEPT;
    unsigned read = 0;
    for (int i = 0; i < 10000; ++i) {
        const bool request = i % 2 == 0;
        const size_t length =
            request ? vipl_lo_connect_request_write(&h, bytes) : vipl_lo_reply_write(&a, bytes);
        for (std::uint64_t n = 1 + below(random, 8); n > 0; --n) {
            bytes[below(random, length)] = static_cast<std::uint8_t>(random());
        }
        lo_connect_request seen{};
        lo_reply seen_reply{};
        if (!request) {
            read += read_exactly(vipl_lo_reply_read, &seen_reply, bytes, length) ? 1 : 0;
        } else if (read_exactly(vipl_lo_connect_request_read, &seen, bytes, length)) {
            ++read;
            REQUIRE((!vipl_lo_writer_fits(&seen.writer) ||
                     (address_in_bounds(seen.local) && address_in_bounds(seen.remote))));
        }
    }
    REQUIRE(read > 1000);
}
