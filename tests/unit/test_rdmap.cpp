// SPDX-License-Identifier: MIT
//
// DDP and RDMAP: golden bytes of every operation, every combination of the two control bytes, every
// Terminate reason, every truncation.
#include <catch2/catch.hpp>

#include "bytes.hpp"

extern "C" {
#include "iwarp/rdmap.h"
}

using namespace unit;

namespace {

vipl_ddp tagged(unsigned op, bool last, std::uint32_t stag, std::uint64_t offset)
{
    vipl_ddp d{};
    d.tagged = true;
    d.last = last;
    d.op = static_cast<std::uint8_t>(op);
    d.stag = stag;
    d.offset = offset;
    d.header_bytes = VIPL_DDP_TAGGED_BYTES;
    return d;
}

vipl_ddp untagged(unsigned op, bool last, std::uint32_t queue, std::uint32_t msn, std::uint32_t mo,
                  std::uint32_t stag = 0)
{
    vipl_ddp d{};
    d.last = last;
    d.op = static_cast<std::uint8_t>(op);
    d.stag = stag;
    d.queue = queue;
    d.msn = msn;
    d.mo = mo;
    d.header_bytes = VIPL_DDP_UNTAGGED_BYTES;
    return d;
}

std::string text(const vipl_ddp &d)
{
    Bytes bytes(VIPL_DDP_UNTAGGED_BYTES);
    bytes.resize(vipl_ddp_write(bytes.data(), &d));
    return hex(bytes);
}

bool same(const vipl_ddp &a, const vipl_ddp &b)
{
    return a.tagged == b.tagged && a.last == b.last && a.op == b.op && a.stag == b.stag &&
           a.offset == b.offset && a.queue == b.queue && a.msn == b.msn && a.mo == b.mo &&
           a.header_bytes == b.header_bytes;
}

vipl_ddp_fault read_ddp(const Bytes &bytes, vipl_ddp *out)
{
    const Exact exact(bytes);
    return vipl_ddp_read(exact.get(), bytes.size(), out);
}

struct Golden {
    vipl_ddp ddp;
    const char *bytes;
};

const Golden kHeaders[] = {
    {tagged(VIPL_RDMAP_WRITE, true, 0x01020304, 0x1112131415161718), "c140 01020304 1112131415161718"},
    {tagged(VIPL_RDMAP_WRITE, false, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF), "8140 ffffffff ffffffffffffffff"},
    {tagged(VIPL_RDMAP_READ_RESPONSE, true, 0x01020304, 0x1112131415161718),
     "c142 01020304 1112131415161718"},
    {untagged(VIPL_RDMAP_READ_REQUEST, true, 1, 2, 0), "4141 00000000 00000001 00000002 00000000"},
    {untagged(VIPL_RDMAP_SEND, false, 0, 0x21222324, 0x31323334), "0143 00000000 00000000 21222324 31323334"},
    {untagged(VIPL_RDMAP_SEND, true, 0, 1, 0), "4143 00000000 00000000 00000001 00000000"},
    {untagged(VIPL_RDMAP_SEND_INVALIDATE, true, 0, 1, 0, 0x41424344),
     "4144 41424344 00000000 00000001 00000000"},
    {untagged(VIPL_RDMAP_SEND_SE, true, 0, 1, 0), "4145 00000000 00000000 00000001 00000000"},
    {untagged(VIPL_RDMAP_SEND_SE_INVALIDATE, true, 0, 1, 0, 0x41424344),
     "4146 41424344 00000000 00000001 00000000"},
    {untagged(VIPL_RDMAP_TERMINATE, true, 2, 1, 0), "4147 00000000 00000002 00000001 00000000"},
    {untagged(VIPL_RDMAP_IMMEDIATE, true, 0, 7, 0), "4148 00000000 00000000 00000007 00000000"},
    {untagged(VIPL_RDMAP_IMMEDIATE_SE, true, 0, 7, 0), "4149 00000000 00000000 00000007 00000000"},
};

bool read_terminate(const Bytes &bytes, vipl_rdmap_terminate *out)
{
    const Exact exact(bytes);
    return vipl_rdmap_terminate_read(exact.get(), bytes.size(), out);
}

std::string text(const vipl_rdmap_terminate &t)
{
    Bytes bytes(VIPL_RDMAP_MAX_TERMINATE_BYTES);
    bytes.resize(vipl_rdmap_terminate_write(bytes.data(), &t));
    return hex(bytes);
}

const char kRead[] = "01020304 1112131415161718 21222324 31323334 4142434445464748";

vipl_rdmap_read some_read()
{
    return {0x01020304, 0x1112131415161718, 0x21222324, 0x31323334, 0x4142434445464748};
}

std::string plain(const std::string &spaced)
{
    return hex(bytes_of(spaced));
}

} // namespace

TEST_CASE("every operation's header has these bytes on every CPU", "[rdmap]")
{
    for (const Golden &golden : kHeaders) {
        REQUIRE(text(golden.ddp) == plain(golden.bytes));
        vipl_ddp seen{};
        REQUIRE(read_ddp(bytes_of(golden.bytes), &seen) == VIPL_DDP_OK);
        REQUIRE(same(seen, golden.ddp));
        REQUIRE(read_ddp(bytes_of(golden.bytes) + Bytes(40, 0xEE), &seen) == VIPL_DDP_OK); // a payload
        REQUIRE(same(seen, golden.ddp));
    }
}

TEST_CASE("a truncated header is short at every length", "[rdmap]")
{
    for (const Golden &golden : kHeaders) {
        const Bytes bytes = bytes_of(golden.bytes);
        for (std::size_t n = 0; n < bytes.size(); ++n) {
            vipl_ddp seen{};
            seen.mo = 77;
            REQUIRE(read_ddp(Bytes(bytes.begin(), bytes.begin() + n), &seen) == VIPL_DDP_FAULT_SHORT);
            REQUIRE(seen.mo == 77);
        }
    }
}

TEST_CASE("every combination of the control bytes is judged as the RFCs say", "[rdmap]")
{
    static const int queues[] = {-1, 1, -1, 0, 0, 0, 0, 2, 0, 0}; // -1: tagged
    for (unsigned control = 0; control < 0x10000; ++control) {
        for (std::uint32_t queue = 0; queue < 4; ++queue) {
            Bytes bytes = bytes_of("0000 41424344 00000000 00000001 00000000");
            bytes[0] = static_cast<std::uint8_t>(control >> 8);
            bytes[1] = static_cast<std::uint8_t>(control);
            bytes[9] = static_cast<std::uint8_t>(queue);
            const unsigned op = control & 15;
            const bool is_tagged = (control & 0x8000) != 0; // reserved bits are ignored
            vipl_ddp_fault expected = VIPL_DDP_OK;
            if ((control >> 8 & 3) != 1) {
                expected = VIPL_DDP_FAULT_VERSION;
            } else if ((control >> 6 & 3) != 1) {
                expected = VIPL_DDP_FAULT_RDMAP_VERSION;
            } else if (op > 9 || is_tagged != (queues[op] < 0)) {
                expected = VIPL_DDP_FAULT_OPCODE;
            } else if (!is_tagged && static_cast<int>(queue) != queues[op]) {
                expected = VIPL_DDP_FAULT_QUEUE;
            }
            vipl_ddp seen{};
            if (vipl_ddp_read(bytes.data(), bytes.size(), &seen) != expected) {
                FAIL("control " << std::hex << control << " queue " << queue);
            }
            // Right or wrong, it is read: a Terminate sends it back.
            if (seen.tagged != is_tagged || seen.last != ((control & 0x4000) != 0) || seen.op != op ||
                seen.header_bytes != (is_tagged ? 14u : 18u)) {
                FAIL("fields of " << std::hex << control);
            }
        }
    }
}

TEST_CASE("queues beyond the known ones are faults whatever their number", "[rdmap]")
{
    for (const std::uint32_t queue : {3u, 0x100u, 0x10000u, 0x80000000u, 0xFFFFFFFFu}) {
        vipl_ddp seen{};
        const vipl_ddp d = untagged(VIPL_RDMAP_SEND, true, queue, 1, 0);
        REQUIRE(read_ddp(bytes_of(text(d)), &seen) == VIPL_DDP_FAULT_QUEUE);
        REQUIRE(seen.queue == queue);
    }
}

TEST_CASE("an STag counts only where the operation has one", "[rdmap]")
{
    vipl_ddp seen{};
    REQUIRE(read_ddp(bytes_of("4143 41424344 00000000 00000001 00000000"), &seen) == VIPL_DDP_OK);
    REQUIRE(seen.stag == 0);
    REQUIRE(text(untagged(VIPL_RDMAP_SEND, true, 0, 1, 0, 5)) ==
            plain("4143 00000000 00000000 00000001 00000000"));
}

TEST_CASE("a Read Request has these bytes on every CPU", "[rdmap]")
{
    const vipl_rdmap_read read = some_read();
    std::uint8_t bytes[VIPL_RDMAP_READ_REQUEST_BYTES];
    vipl_rdmap_read_write(bytes, &read);
    REQUIRE(hex(bytes, sizeof bytes) == plain(kRead));
    const Exact exact(bytes, sizeof bytes);
    vipl_rdmap_read seen{};
    vipl_rdmap_read_read(exact.get(), &seen);
    REQUIRE(seen.sink_stag == read.sink_stag);
    REQUIRE(seen.sink_offset == read.sink_offset);
    REQUIRE(seen.bytes == read.bytes);
    REQUIRE(seen.source_stag == read.source_stag);
    REQUIRE(seen.source_offset == read.source_offset);
}

TEST_CASE("Immediate Data has these bytes on every CPU", "[rdmap]")
{
    std::uint8_t bytes[VIPL_RDMAP_IMMEDIATE_BYTES];
    vipl_rdmap_immediate_write(bytes, 0x81828384);
    REQUIRE(hex(bytes, sizeof bytes) == "0000000081828384");
    const Exact exact(bytes_of("fffffffe81828384")); // a foreign peer's eight bytes
    REQUIRE(vipl_rdmap_immediate_read(exact.get()) == 0x81828384);
}

TEST_CASE("every Terminate reason has its layer, type and code", "[rdmap]")
{
    const struct {
        std::uint16_t reason;
        const char *bytes;
    } reasons[] = {
        {VIPL_TERM_RDMAP_LOCAL_CATASTROPHIC, "00000000"},
        {VIPL_TERM_RDMAP_INVALID_STAG, "01000000"},
        {VIPL_TERM_RDMAP_BASE_BOUNDS, "01010000"},
        {VIPL_TERM_RDMAP_ACCESS, "01020000"},
        {VIPL_TERM_RDMAP_STAG_NOT_ASSOCIATED, "01030000"},
        {VIPL_TERM_RDMAP_TO_WRAP, "01040000"},
        {VIPL_TERM_RDMAP_PROTECTION_UNSPECIFIED, "01ff0000"},
        {VIPL_TERM_RDMAP_VERSION, "02050000"},
        {VIPL_TERM_RDMAP_OPCODE, "02060000"},
        {VIPL_TERM_RDMAP_STREAM_CATASTROPHIC, "02070000"},
        {VIPL_TERM_RDMAP_GLOBAL_CATASTROPHIC, "02080000"},
        {VIPL_TERM_RDMAP_STAG_NOT_INVALIDATED, "02090000"},
        {VIPL_TERM_RDMAP_UNSPECIFIED, "02ff0000"},
        {VIPL_TERM_DDP_LOCAL_CATASTROPHIC, "10000000"},
        {VIPL_TERM_DDP_TAGGED_STAG, "11000000"},
        {VIPL_TERM_DDP_TAGGED_BOUNDS, "11010000"},
        {VIPL_TERM_DDP_TAGGED_NOT_ASSOCIATED, "11020000"},
        {VIPL_TERM_DDP_TAGGED_WRAP, "11030000"},
        {VIPL_TERM_DDP_TAGGED_VERSION, "11040000"},
        {VIPL_TERM_DDP_UNTAGGED_QUEUE, "12010000"},
        {VIPL_TERM_DDP_UNTAGGED_NO_BUFFER, "12020000"},
        {VIPL_TERM_DDP_UNTAGGED_MSN, "12030000"},
        {VIPL_TERM_DDP_UNTAGGED_MO, "12040000"},
        {VIPL_TERM_DDP_UNTAGGED_TOO_LONG, "12050000"},
        {VIPL_TERM_DDP_UNTAGGED_VERSION, "12060000"},
        {VIPL_TERM_MPA_CLOSED, "20010000"},
        {VIPL_TERM_MPA_CRC, "20020000"},
        {VIPL_TERM_MPA_MARKER, "20030000"},
        {VIPL_TERM_MPA_PROTOCOL, "20040000"},
        {0xF3AB, "f3ab0000"}, // a peer's own
    };
    for (const auto &r : reasons) {
        vipl_rdmap_terminate t{}, seen{};
        t.reason = r.reason;
        REQUIRE(text(t) == r.bytes);
        REQUIRE(read_terminate(bytes_of(r.bytes), &seen));
        REQUIRE(seen.reason == r.reason);
        REQUIRE_FALSE(seen.with_ddp);
        REQUIRE_FALSE(seen.with_read);
    }
}

TEST_CASE("a Terminate with headers has these bytes on every CPU", "[rdmap]")
{
    struct Case {
        vipl_rdmap_terminate terminate;
        std::string bytes;
    };
    const vipl_ddp write = tagged(VIPL_RDMAP_WRITE, true, 9, 0x1000);
    const vipl_ddp send = untagged(VIPL_RDMAP_SEND, true, 0, 3, 0);
    const vipl_ddp request = untagged(VIPL_RDMAP_READ_REQUEST, true, 1, 2, 0);
    const vipl_rdmap_read none{};
    const Case cases[] = {
        {{VIPL_TERM_DDP_TAGGED_BOUNDS, 114, true, write, false, none, false, {}},
         "1101c000 0072 c140 00000009 0000000000001000"},
        {{VIPL_TERM_DDP_UNTAGGED_NO_BUFFER, 0x1234, true, send, false, none, false, {}},
         "1202c000 1234 4143 00000000 00000000 00000003 00000000"},
        {{VIPL_TERM_RDMAP_ACCESS, 46, true, request, true, some_read(), false, {}},
         std::string("0102e000 002e 4141 00000000 00000001 00000002 00000000") + kRead},
        {{VIPL_TERM_RDMAP_ACCESS, 0, false, vipl_ddp{}, true, some_read(), false, {}},
         std::string("01022000") + kRead},
    };
    for (const Case &c : cases) {
        REQUIRE(text(c.terminate) == plain(c.bytes));
        const Bytes bytes = bytes_of(c.bytes);
        for (const Bytes &tail : {Bytes{}, Bytes{1, 2, 3}}) { // what follows is not ours to judge
            vipl_rdmap_terminate seen{};
            REQUIRE(read_terminate(bytes + tail, &seen));
            REQUIRE(seen.reason == c.terminate.reason);
            REQUIRE(seen.segment_bytes == c.terminate.segment_bytes);
            REQUIRE(seen.with_ddp == c.terminate.with_ddp);
            REQUIRE(same(seen.ddp, c.terminate.ddp));
            REQUIRE(seen.with_read == c.terminate.with_read);
            REQUIRE(text(seen) == plain(c.bytes));
        }
        for (std::size_t n = 0; n < bytes.size(); ++n) {
            vipl_rdmap_terminate seen{};
            seen.reason = 0x7777;
            REQUIRE_FALSE(read_terminate(Bytes(bytes.begin(), bytes.begin() + n), &seen));
            REQUIRE(seen.reason == 0x7777);
        }
    }
    REQUIRE(bytes_of(cases[2].bytes).size() == VIPL_RDMAP_MAX_TERMINATE_BYTES);
}

TEST_CASE("the header in a Terminate may be as wrong as its reason says", "[rdmap]")
{
    vipl_rdmap_terminate seen{};
    REQUIRE(
        read_terminate(bytes_of("1206c000 0012 4243 00000000 00000000 00000003 00000000"), &seen)); // DDP 2
    REQUIRE(seen.with_ddp);
    REQUIRE(seen.ddp.msn == 3);
    REQUIRE(read_terminate(bytes_of("0206c000 000e c14f 00000009 0000000000001000"), &seen)); // operation 15
    REQUIRE(seen.ddp.op == 15);
    REQUIRE(text(seen) == plain("0206c000 000e c14f 00000009 0000000000001000"));
    for (const char *as_it_came : {"1206c000 0012 4243 00000000 00000000 00000003 00000000", // DDP 2
                                   "1104c000 0072 c0c0 00000009 0000000000001000",           // DDP 0, RDMAP 3
                                   "1104c000 0012 8000 00000000 0000000000000000"}) { // and nothing else
        REQUIRE(read_terminate(bytes_of(as_it_came), &seen));
        REQUIRE(text(seen) == plain(as_it_came));
    }
}

TEST_CASE("without M a segment length is there, but says nothing", "[rdmap]")
{
    vipl_rdmap_terminate seen{};
    REQUIRE(read_terminate(bytes_of("11014000 0072 c140 00000009 0000000000001000"), &seen));
    REQUIRE(seen.with_ddp);
    REQUIRE(seen.segment_bytes == 0);
    REQUIRE(seen.ddp.stag == 9);
    REQUIRE(read_terminate(bytes_of("11018000"), &seen)); // M alone
    REQUIRE_FALSE(seen.with_ddp);
    REQUIRE(read_terminate(bytes_of("11011fff"), &seen)); // reserved bits are ignored
    REQUIRE_FALSE(seen.with_ddp);
    REQUIRE_FALSE(seen.with_read);
}

TEST_CASE("a whole Send is what the header says, for any two control bytes and any number", "[rdmap]")
{
    const vipl_ddp send = untagged(VIPL_RDMAP_SEND, true, VIPL_DDP_QUEUE_SEND, 7, 0);
    Bytes bytes(VIPL_DDP_UNTAGGED_BYTES + 1);
    vipl_ddp_write(bytes.data(), &send);
    const auto is_whole = [&bytes](std::uint32_t msn) {
        const Exact exact(bytes);
        return vipl_ddp_is_whole_send(exact.get(), bytes.size(), msn);
    };
    CHECK(is_whole(7));
    CHECK(!is_whole(8));
    for (unsigned first = 0; first < 256; ++first) {
        for (unsigned second = 0; second < 256; ++second) {
            bytes[0] = static_cast<std::uint8_t>(first);
            bytes[1] = static_cast<std::uint8_t>(second);
            vipl_ddp d{};
            const bool wanted = read_ddp(bytes, &d) == VIPL_DDP_OK && d.op == VIPL_RDMAP_SEND && d.last;
            if (is_whole(7) != wanted) {
                FAIL("control bytes " << first << " " << second);
            }
        }
    }
    vipl_ddp_write(bytes.data(), &send);
    for (const size_t field : {6u, 10u, 14u}) { // queue, number, offset
        Bytes kept = bytes;
        bytes[field + 3] ^= 1;
        CHECK(!is_whole(7));
        bytes = kept;
    }
    bytes.resize(VIPL_DDP_UNTAGGED_BYTES); // it is empty
    CHECK(!is_whole(7));
    bytes.resize(VIPL_DDP_UNTAGGED_BYTES - 1);
    CHECK(!is_whole(7));
}
