// SPDX-License-Identifier: MIT
//
// What a foreign peer may send, and may not, once it is connected: a stream in single bytes, more
// than the kernel takes at a time, every fault with the Terminate that RFC 5040, 5041 and 5044 have
// for it, and Terminates that come.
#include <catch2/catch.hpp>

#include <functional>
#include <memory>

#include "exercise.hpp"
#include "support/error_log.hpp"

using namespace foreign;

namespace {

/** A connection, and memory beside it; what another tag guards is in tests/stress/tcp_rules.cpp. */
struct Stage : Opened {
    using Opened::Opened;
    std::unique_ptr<Memory> other;

    /** Bytes without that right. */
    RemoteSpan without(VIP_BOOLEAN VIP_MEM_ATTRIBUTES::*right)
    {
        VIP_MEM_ATTRIBUTES rights = rdma_memory();
        rights.*right = VIP_FALSE;
        other = std::make_unique<Memory>(side.nic, 4096, rights);
        return other->bytes(64).remote();
    }

    Bytes write(const RemoteSpan &where, const Bytes &data = {1})
    {
        return peer.tagged_message(VIPL_RDMAP_WRITE, where.handle, where.address, data);
    }
    Bytes read(const RemoteSpan &where, std::uint32_t bytes = 8)
    {
        return peer.read_request({1, 0, bytes, where.handle, where.address});
    }
    RemoteSpan board(std::uint64_t shift = 0) const
    {
        return {side.board.remote().address + shift, side.board.handle};
    }
    RemoteSpan unknown() const { return {board().address, board().handle ^ 0xFF0000}; }
    Bytes immediate(std::uint32_t msn, std::uint32_t mo = 0,
                    std::size_t size = VIPL_RDMAP_IMMEDIATE_BYTES) const
    {
        return peer.segment(Peer::untagged(VIPL_RDMAP_IMMEDIATE, VIPL_DDP_QUEUE_SEND, msn, mo), Bytes(size));
    }
    Bytes request(std::uint32_t msn, std::uint32_t mo = 0, std::size_t size = VIPL_RDMAP_READ_REQUEST_BYTES,
                  bool last = true) const
    {
        return peer.segment(
            Peer::untagged(VIPL_RDMAP_READ_REQUEST, VIPL_DDP_QUEUE_READ_REQUEST, msn, mo, last), Bytes(size));
    }
    /** An RDMA Read of ours, of that many bytes, and an answer to it. */
    Bytes response(std::uint32_t asked, std::uint32_t stag_shift, std::uint64_t shift, std::size_t size)
    {
        side.send(Bytes(asked), VIP_CONTROL_OP_RDMAREAD, {kTheirMemory, kTheirStag});
        const vipl_rdmap_read read = peer.take_read_request();
        return peer.tagged_message(VIPL_RDMAP_READ_RESPONSE, read.sink_stag + stag_shift,
                                   read.sink_offset + shift, Bytes(size, 0xEE));
    }
};

struct Fault {
    const char *what;
    unsigned reason;
    VIP_ERROR_CODE code;
    Bytes (*bytes)(Stage &);
};

Bytes with(Bytes bytes, std::size_t at, std::uint8_t value)
{
    bytes[at] = value;
    return bytes;
}

/** A Send of one byte with one byte of its segment spoiled; 0 and 1 are its length. */
Bytes spoiled(Stage &o, std::size_t at, std::uint8_t value)
{
    return with(o.peer.send_message({1}), at, value);
}

constexpr VIP_ERROR_CODE kStream = VIP_ERROR_RDMA_TRANSPORT, kWrite = VIP_ERROR_RDMAW_PROT,
                         kRead = VIP_ERROR_RDMAR_PROT;

const Fault kFaults[] = {
    // MPA and DDP, whatever the message
    {"a header that is short", VIPL_TERM_MPA_PROTOCOL, kStream,
     [](Stage &o) {
         return o.peer.fpdu({0x41, 0x43, 0, 0});
     }},
    {"an untagged segment of DDP version 2", VIPL_TERM_DDP_UNTAGGED_VERSION, kStream,
     [](Stage &o) { return spoiled(o, 2, 0x42); }},
    {"a tagged segment of DDP version 2", VIPL_TERM_DDP_TAGGED_VERSION, kStream,
     [](Stage &o) { return with(o.write(o.board()), 2, 0xC2); }},
    {"a tagged segment of DDP version 0", VIPL_TERM_DDP_TAGGED_VERSION, kStream,
     [](Stage &o) { return with(o.write(o.board()), 2, 0xC0); }},
    {"RDMAP version 2", VIPL_TERM_RDMAP_VERSION, kStream, [](Stage &o) { return spoiled(o, 3, 0x83); }},
    {"a tagged segment of RDMAP version 0", VIPL_TERM_RDMAP_VERSION, kStream,
     [](Stage &o) { return with(o.write(o.board()), 3, 0x00); }},
    {"an operation that is none", VIPL_TERM_RDMAP_OPCODE, kStream,
     [](Stage &o) { return spoiled(o, 3, 0x4F); }},
    {"a Send in a tagged segment", VIPL_TERM_RDMAP_OPCODE, kStream,
     [](Stage &o) { return with(o.write(o.board()), 3, 0x43); }},

    // Sends
    {"a Send on another queue", VIPL_TERM_DDP_UNTAGGED_QUEUE, kStream,
     [](Stage &o) { return spoiled(o, 11, 3); }},
    {"a number that is not next", VIPL_TERM_DDP_UNTAGGED_MSN, kStream,
     [](Stage &o) {
         ++o.peer.send_msn;
         return o.peer.send_message({1});
     }},
    {"an offset that is not next", VIPL_TERM_DDP_UNTAGGED_MO, kStream,
     [](Stage &o) { return spoiled(o, 19, 1); }},
    {"a Send that invalidates", VIPL_TERM_RDMAP_STAG_NOT_INVALIDATED, kStream,
     [](Stage &o) { return o.peer.send_message({1}, VIPL_RDMAP_SEND_INVALIDATE); }},
    {"one that invalidates and solicits", VIPL_TERM_RDMAP_STAG_NOT_INVALIDATED, kStream,
     [](Stage &o) { return o.peer.send_message({1}, VIPL_RDMAP_SEND_SE_INVALIDATE); }},
    {"a message too long", VIPL_TERM_DDP_UNTAGGED_TOO_LONG, VIP_ERROR_CONN_LOST,
     [](Stage &o) { return o.peer.send_message(pattern(4001, 1), VIPL_RDMAP_SEND, 5000); }},
    {"a message nobody receives", VIPL_TERM_DDP_UNTAGGED_NO_BUFFER, VIP_ERROR_RECVQ_EMPTY,
     [](Stage &o) {
         Bytes all;
         for (int i = 0; i < 3; ++i) {
             all = unit::operator+(all, o.peer.send_message({1}));
         }
         return all;
     }},

    // Immediate Data
    {"Immediate Data that is not next", VIPL_TERM_DDP_UNTAGGED_MSN, kStream,
     [](Stage &o) { return o.immediate(o.peer.send_msn + 1); }},
    {"Immediate Data that was before", VIPL_TERM_DDP_UNTAGGED_MSN, kStream,
     [](Stage &o) { return o.immediate(o.peer.send_msn - 1); }},
    {"Immediate Data at an offset", VIPL_TERM_DDP_UNTAGGED_MO, kStream,
     [](Stage &o) { return o.immediate(o.peer.send_msn, 8); }},
    {"Immediate Data of nine bytes", VIPL_TERM_DDP_UNTAGGED_TOO_LONG, kStream,
     [](Stage &o) { return o.immediate(o.peer.send_msn, 0, 9); }},
    {"Immediate Data of seven bytes", VIPL_TERM_RDMAP_UNSPECIFIED, kStream,
     [](Stage &o) { return o.immediate(o.peer.send_msn, 0, 7); }},
    {"Immediate Data within a Send", VIPL_TERM_RDMAP_OPCODE, kStream,
     [](Stage &o) {
         const Bytes begin = o.peer.segment(
             Peer::untagged(VIPL_RDMAP_SEND, VIPL_DDP_QUEUE_SEND, o.peer.send_msn, 0, false), {1});
         return unit::operator+(begin, o.immediate(o.peer.send_msn));
     }},

    // RDMA Writes
    {"a write to a handle that is none", VIPL_TERM_DDP_TAGGED_STAG, kWrite,
     [](Stage &o) { return o.write(o.unknown()); }},
    {"a write beyond the region", VIPL_TERM_DDP_TAGGED_BOUNDS, kWrite,
     [](Stage &o) { return o.write(o.board(1 << 20)); }},
    {"a write that begins before the region", VIPL_TERM_DDP_TAGGED_BOUNDS, kWrite,
     [](Stage &o) { return o.write(o.board(0 - std::uint64_t{1 << 20})); }},
    {"a write over the end of all memory", VIPL_TERM_DDP_TAGGED_WRAP, kWrite,
     [](Stage &o) {
         return o.write({UINT64_MAX - 2, o.board().handle}, {1, 2, 3, 4});
     }},
    {"a write to memory that is not to be written", VIPL_TERM_RDMAP_ACCESS, kWrite,
     [](Stage &o) { return o.write(o.without(&VIP_MEM_ATTRIBUTES::EnableRdmaWrite)); }},

    // RDMA Reads
    {"a read from a handle that is none", VIPL_TERM_RDMAP_INVALID_STAG, kRead,
     [](Stage &o) { return o.read(o.unknown()); }},
    {"a read beyond the region", VIPL_TERM_RDMAP_BASE_BOUNDS, kRead,
     [](Stage &o) { return o.read(o.board(1 << 20)); }},
    {"a read of memory that is not to be read", VIPL_TERM_RDMAP_ACCESS, kRead,
     [](Stage &o) { return o.read(o.without(&VIP_MEM_ATTRIBUTES::EnableRdmaRead)); }},
    {"a read over the end of all memory", VIPL_TERM_RDMAP_TO_WRAP, kRead,
     [](Stage &o) {
         return o.read({UINT64_MAX - 2, o.board().handle});
     }},
    {"a read request that is not next", VIPL_TERM_DDP_UNTAGGED_MSN, kStream,
     [](Stage &o) { return o.request(o.peer.read_msn + 1); }},
    {"a read request at an offset", VIPL_TERM_DDP_UNTAGGED_MO, kStream,
     [](Stage &o) { return o.request(o.peer.read_msn, 4); }},
    {"a read request that is too long", VIPL_TERM_DDP_UNTAGGED_TOO_LONG, kStream,
     [](Stage &o) { return o.request(o.peer.read_msn, 0, 29); }},
    {"a read request that goes on", VIPL_TERM_DDP_UNTAGGED_TOO_LONG, kStream,
     [](Stage &o) { return o.request(o.peer.read_msn, 0, 28, false); }},
    {"a read request that is too short", VIPL_TERM_RDMAP_UNSPECIFIED, kStream,
     [](Stage &o) { return o.request(o.peer.read_msn, 0, 27); }},

    // answers to ours
    {"a response to nothing", VIPL_TERM_DDP_TAGGED_STAG, kStream,
     [](Stage &o) { return o.peer.tagged_message(VIPL_RDMAP_READ_RESPONSE, 0, 0, {1}); }},
    {"a response longer than what was asked", VIPL_TERM_DDP_TAGGED_BOUNDS, kStream,
     [](Stage &o) { return o.response(8, 0, 0, 9); }},
    {"a response shorter than what was asked", VIPL_TERM_DDP_TAGGED_BOUNDS, kStream,
     [](Stage &o) { return o.response(8, 0, 0, 7); }},
    {"a rest of a response at another place", VIPL_TERM_DDP_TAGGED_BOUNDS, kStream,
     [](Stage &o) { return o.response(8, 0, 1, 7); }},
    {"a whole response at another place", VIPL_TERM_DDP_TAGGED_BOUNDS, kStream,
     [](Stage &o) { return o.response(8, 0, 8, 8); }},
    {"a response to another read", VIPL_TERM_DDP_TAGGED_STAG, kStream,
     [](Stage &o) { return o.response(8, 1, 0, 8); }},
    {"another's response to a confirmation", VIPL_TERM_DDP_TAGGED_STAG, kStream,
     [](Stage &o) {
         o.side.send(Bytes(8), VIP_CONTROL_OP_RDMAWRITE, {kTheirMemory, kTheirStag});
         o.peer.take_tagged(VIPL_RDMAP_WRITE, kTheirStag, kTheirMemory);
         const vipl_rdmap_read read = o.peer.take_read_request();
         return o.peer.tagged_message(VIPL_RDMAP_READ_RESPONSE, read.sink_stag + 1, 0, {});
     }},
};

/** The last segment of FPDUs without CRC. */
Bytes last_ulpdu(const Bytes &fpdus)
{
    for (std::size_t at = 0;;) {
        const std::size_t length = vipl_get16(&fpdus[at]), next = at + vipl_mpa_fpdu_bytes(length);
        if (next >= fpdus.size()) {
            const auto begin = fpdus.begin() + static_cast<std::ptrdiff_t>(at) + VIPL_MPA_HEADER_BYTES;
            return Bytes(begin, begin + static_cast<std::ptrdiff_t>(length));
        }
        at = next;
    }
}

/** What RFC 5040 wants in a Terminate about that segment: its length and header, byte by byte, and
 * the Read Request if it is one that protection refuses; of MPA's errors nothing. */
Bytes terminate_about(unsigned reason, const Bytes &ulpdu)
{
    const std::size_t header = (ulpdu[0] & 0x80) != 0 ? VIPL_DDP_TAGGED_BYTES : VIPL_DDP_UNTAGGED_BYTES;
    const bool read = reason >> 8 == VIPL_TERM_RDMAP_INVALID_STAG >> 8 && (ulpdu[0] & 0x80) == 0;
    Bytes all(4);
    vipl_put16(all.data(), static_cast<std::uint16_t>(reason));
    if (reason >> 12 == VIPL_TERM_MPA_CRC >> 12) {
        return all;
    }
    all[2] = read ? 0xE0 : 0xC0;
    all.resize(6);
    vipl_put16(&all[4], static_cast<std::uint16_t>(ulpdu.size()));
    const std::size_t told = header + (read ? VIPL_RDMAP_READ_REQUEST_BYTES : 0);
    all.insert(all.end(), ulpdu.begin(), ulpdu.begin() + static_cast<std::ptrdiff_t>(told));
    return all;
}

void expect_fault(const Fault &fault, bool crc, bool markers)
{
    Stage o(crc, markers);
    ErrorLog errors(o.side.nic);
    Bytes bytes = fault.bytes(o);
    const Bytes told = terminate_about(fault.reason, last_ulpdu(bytes));
    if (crc) { // right over what is wrong
        bytes.resize(bytes.size() - 4);
        const std::size_t length = vipl_get16(bytes.data());
        bytes.resize(2 + length);
        bytes = o.peer.fpdu(Bytes(bytes.begin() + 2, bytes.end()));
    }
    o.peer.write(bytes);
    o.side.vi.await(VIP_STATE_ERROR);
    const Segment got = o.peer.next();
    EXPECT_EQ(+VIPL_RDMAP_TERMINATE, +got.ddp.op);
    EXPECT_EQ(fault.reason, unsigned{vipl_get16(got.payload.data())});
    EXPECT_EQ(unit::hex(told), unit::hex(got.payload));
    EXPECT(o.peer.over());
    errors.expect(o.side.vi, fault.code);
}

} // namespace

TEST_CASE("each fault has its Terminate, and costs the connection alone", "[stream]")
{
    for (const Fault &fault : kFaults) {
        INFO(fault.what);
        try {
            expect_fault(fault, false, false);
            expect_fault(fault, false, true);
            const bool one = fault.reason != VIPL_TERM_DDP_UNTAGGED_NO_BUFFER &&
                             std::string(fault.what) != "Immediate Data within a Send"; // FPDUs
            if (one) {
                expect_fault(fault, true, false);
            }
        } catch (const Failure &failure) {
            FAIL(failure.what());
        }
    }
}

TEST_CASE("a write of a foreign peer is checked a segment at a time, as RFC 5041 has it", "[stream]")
{
    Opened o;
    ErrorLog errors(o.side.nic);
    Memory region(o.side.nic, 4096, rdma_memory());
    const Span all = {region.data(), 4096, region.handle()};
    const Bytes data = pattern(2000, 1);
    const std::uint64_t at = reinterpret_cast<std::uintptr_t>(region.data()) + 4096 - 1500;
    o.peer.write(o.peer.tagged_message(VIPL_RDMAP_WRITE, region.handle(), at, data, 1000));
    EXPECT_EQ(unsigned{VIPL_TERM_DDP_TAGGED_BOUNDS}, o.peer.take_terminate());
    EXPECT(o.peer.over());
    errors.expect(o.side.vi, VIP_ERROR_RDMAW_PROT);
    REQUIRE(std::equal(data.begin(), data.begin() + 1000, all.data + 4096 - 1500)); // what fitted
    REQUIRE(all.part(4096 - 500, 500).all(0));
}

/** The next receive, by a program that does nothing but poll: also before there is something. */
VIP_RETURN poll_receive(VIP_VI_HANDLE vi, const std::function<void()> &meanwhile, VIP_DESCRIPTOR **done)
{
    VIP_RETURN rc = VIP_NOT_DONE;
    for (int i = 0; i < 8; ++i) {
        REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(vi, done));
    }
    meanwhile();
    for (const auto end = now_ms() + patience(); rc == VIP_NOT_DONE && now_ms() < end;) {
        rc = VipRecvDone(vi, done);
    }
    return rc;
}

TEST_CASE("a CRC that is wrong in any bit, and nothing is delivered", "[stream]")
{
    const bool polls = GENERATE(false, true);
    const std::size_t size = 2 + 18 + 8 + 4;
    for (std::size_t at = 2; at < size; ++at) {
        Opened o(true);
        ErrorLog errors(o.side.nic);
        Bytes bytes = o.peer.send_message(pattern(8, 1));
        REQUIRE(bytes.size() == size);
        bytes[at] ^= static_cast<std::uint8_t>(1u << at % 8);
        const Work &receive = o.side.in[o.side.next % 2];
        if (polls) {
            VIP_DESCRIPTOR *done = nullptr;
            REQUIRE_RC(VIP_DESCRIPTOR_ERROR, poll_receive(
                                                 o.side.vi, [&] { o.peer.write(bytes); }, &done));
            EXPECT(done == receive.desc);
        } else {
            o.peer.write(bytes);
            EXPECT(receive_failed(o.side.vi) == receive.desc);
        }
        EXPECT(receive.buffer.part(1, 8).all(0));
        o.side.vi.await(VIP_STATE_ERROR);
        EXPECT_EQ(unsigned{VIPL_TERM_MPA_CRC}, o.peer.take_terminate());
        errors.expect(o.side.vi, VIP_ERROR_RDMA_TRANSPORT);
    }
}

TEST_CASE("a Terminate that comes is the outcome of what was under way", "[stream]")
{
    struct Told {
        unsigned reason;
        VIP_UINT32 status;
    };
    // The last ones as siw packs them: layer and type in each other's place.
    const Told told[] = {{VIPL_TERM_RDMAP_INVALID_STAG, VIP_STATUS_RDMA_PROT_ERROR},
                         {VIPL_TERM_RDMAP_BASE_BOUNDS, VIP_STATUS_RDMA_PROT_ERROR},
                         {VIPL_TERM_RDMAP_ACCESS, VIP_STATUS_RDMA_PROT_ERROR},
                         {VIPL_TERM_RDMAP_STAG_NOT_ASSOCIATED, VIP_STATUS_RDMA_PROT_ERROR},
                         {VIPL_TERM_RDMAP_TO_WRAP, VIP_STATUS_RDMA_PROT_ERROR},
                         {VIPL_TERM_RDMAP_PROTECTION_UNSPECIFIED, VIP_STATUS_RDMA_PROT_ERROR},
                         {VIPL_TERM_DDP_TAGGED_STAG, VIP_STATUS_RDMA_PROT_ERROR},
                         {VIPL_TERM_DDP_TAGGED_BOUNDS, VIP_STATUS_RDMA_PROT_ERROR},
                         {VIPL_TERM_DDP_TAGGED_NOT_ASSOCIATED, VIP_STATUS_RDMA_PROT_ERROR},
                         {VIPL_TERM_DDP_TAGGED_WRAP, VIP_STATUS_RDMA_PROT_ERROR},
                         {VIPL_TERM_DDP_TAGGED_VERSION, VIP_STATUS_RDMA_PROT_ERROR},
                         {VIPL_TERM_RDMAP_LOCAL_CATASTROPHIC, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_RDMAP_VERSION, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_RDMAP_OPCODE, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_RDMAP_STREAM_CATASTROPHIC, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_RDMAP_GLOBAL_CATASTROPHIC, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_RDMAP_STAG_NOT_INVALIDATED, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_RDMAP_UNSPECIFIED, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_DDP_UNTAGGED_QUEUE, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_DDP_UNTAGGED_NO_BUFFER, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_DDP_UNTAGGED_MSN, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_DDP_UNTAGGED_MO, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_DDP_UNTAGGED_TOO_LONG, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_DDP_UNTAGGED_VERSION, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_MPA_CLOSED, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_MPA_CRC, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_MPA_MARKER, VIP_STATUS_TRANSPORT_ERROR},
                         {VIPL_TERM_MPA_PROTOCOL, VIP_STATUS_TRANSPORT_ERROR},
                         {0xFFFF, VIP_STATUS_TRANSPORT_ERROR},
                         {0x1001, VIP_STATUS_RDMA_PROT_ERROR},
                         {0x2000, VIP_STATUS_TRANSPORT_ERROR}};
    const VIP_UINT16 op = GENERATE(VIP_CONTROL_OP_RDMAWRITE, VIP_CONTROL_OP_RDMAREAD);
    for (const Told &each : told) {
        INFO(each.reason);
        Opened o;
        ErrorLog errors(o.side.nic);
        o.side.send(Bytes(8), op, {kTheirMemory, kTheirStag});
        if (op == VIP_CONTROL_OP_RDMAWRITE) {
            o.peer.take_tagged(VIPL_RDMAP_WRITE, kTheirStag, kTheirMemory);
        }
        o.peer.take_read_request();
        Bytes payload(4);
        vipl_put16(payload.data(), static_cast<std::uint16_t>(each.reason));
        o.peer.write(
            o.peer.segment(Peer::untagged(VIPL_RDMAP_TERMINATE, VIPL_DDP_QUEUE_TERMINATE, 1), payload));
        EXPECT(send_failed(o.side.vi) == o.side.work.desc);
        CHECK((o.side.work.status() & VIP_STATUS_ERROR_MASK) == each.status);
        errors.expect(o.side.vi, VIP_ERROR_CONN_LOST);
    }
}

TEST_CASE("a stream in single bytes", "[stream]")
{
    const bool crc = GENERATE(false, true);
    Opened o(crc);
    const Bytes data = pattern(900, 4);
    Bytes all = o.peer.send_message(data, VIPL_RDMAP_SEND, 256);
    all = unit::operator+(all, o.peer.tagged_message(VIPL_RDMAP_WRITE, o.side.board.handle,
                                                     o.side.board.remote().address, data, 333));
    all = unit::operator+(all, o.peer.send_message({5}));
    const Work first = o.side.in[o.side.next++ % 2], second = o.side.in[o.side.next++ % 2];
    unsigned completed = 0;
    for (const std::uint8_t byte : all) {
        VIP_DESCRIPTOR *done = nullptr;
        o.peer.write({byte});
        const VIP_RETURN rc = VipRecvDone(o.side.vi, &done); // takes it up
        if (rc != VIP_NOT_DONE) {
            REQUIRE_VIP(rc);
            EXPECT(done == (completed++ == 0 ? first : second).desc);
        }
    }
    while (completed < 2) {
        EXPECT(received(o.side.vi) == (completed++ == 0 ? first : second).desc);
    }
    EXPECT(bytes_at(first.buffer, data.size()) == data);
    EXPECT(bytes_at(o.side.board, data.size()) == data);
}

TEST_CASE("more than the kernel takes at a time goes on where it stopped", "[stream]")
{
    const bool markers = GENERATE(false, true);
    const bool crc = GENERATE(false, true);
    setenv("VIPL_TCP_BUFFER", "4096", 1);
    Opened o(crc, markers, 2 << 20);
    unsetenv("VIPL_TCP_BUFFER");
    const Span large = o.side.memory.bytes(1 << 20);
    large.fill(77);
    const Bytes data = bytes_at(large, large.size);
    const Work message = o.side.memory.transfer(large);
    const Work write = o.side.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, {kTheirMemory, kTheirStag}, large);
    o.peer.write(o.peer.read_request({0xEE, 0, large.size, large.handle, large.remote().address}));
    post_send(o.side.vi, message);
    post_send(o.side.vi, write);
    std::future<void> peer = std::async(std::launch::async, [&] {
        // The answer comes before, between or behind the two posts; all three whole.
        std::string order;
        for (int i = 0; i < 3; ++i) {
            Segment got = o.peer.next();
            const vipl_ddp first = got.ddp;
            Bytes all = got.payload;
            while (!got.ddp.last) {
                got = o.peer.any();
                EXPECT_EQ(+first.op, +got.ddp.op);
                EXPECT_EQ(std::uint64_t{all.size()},
                          first.tagged ? got.ddp.offset - first.offset : got.ddp.mo);
                all.insert(all.end(), got.payload.begin(), got.payload.end());
            }
            EXPECT(all == data);
            order += static_cast<char>('0' + first.op);
            if (first.op == VIPL_RDMAP_WRITE) {
                const vipl_rdmap_read confirm = o.peer.take_read_request();
                o.peer.write(o.peer.tagged_message(VIPL_RDMAP_READ_RESPONSE, confirm.sink_stag, 0,
                                                   {1, 2, 3})); // as siw does
            }
        }
        EXPECT(order.find('3') < order.find('0')); // the posts in their order
        EXPECT(order.find('2') != std::string::npos);
    });
    std::string trouble;
    try {
        EXPECT(sent(o.side.vi) == message.desc);
        EXPECT(sent(o.side.vi) == write.desc);
    } catch (const Failure &failure) { // what the peer has to say comes first
        trouble = failure.what();
    }
    peer.get();
    CHECK(trouble.empty());
}
