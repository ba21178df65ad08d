// SPDX-License-Identifier: MIT
//
// What one of this library's peers may not do once it is connected, by a raw socket that sends its
// connect request: RDMA Writes of many segments that are not what they say, rights that go away
// while an answer is under way, and the Terminate codes that tests/foreign/stream.cpp has no scene
// for.
#include "stress.hpp"

#include "support/os_hooks.hpp"
#include "tcp_prey.hpp"

extern "C" {
#include "os/os.h"
}

using namespace stress;

namespace {

constexpr VIP_UINT32 kWide = 64 * kPage, kPart = 60000;

struct Scenery : Target {
    Prey wide{nic, own, true, true, kWide};
    bool untouched() { return wide.untouched() && open.untouched(); }
};

/** A VI and the raw socket that it is connected to. */
struct Session {
    Session(const Scenery &scenery, VIP_RELIABILITY_LEVEL level, bool with_crc = false)
        : Session(scenery, scenery.attributes(level), with_crc)
    {
    }
    Session(const Scenery &scenery, VIP_VI_ATTRIBUTES attributes, bool with_crc = false)
        : crc(with_crc), vi(scenery.nic, attributes)
    {
        Claim claim;
        claim.level = attributes.ReliabilityLevel;
        claim.crc = crc;
        fd = accept_raw(scenery.nic, scenery.name, vi, claim);
    }
    ~Session() { VipDisconnect(vi); }
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;

    void put(const Bytes &bytes) const { put_out(fd, bytes); }

    /** The empty segment in front of a long RDMA Write: its end. */
    void announce(const RemoteSpan &to, std::uint64_t total) const
    {
        vipl_ddp ddp = tagged(VIPL_RDMAP_WRITE, to.handle, to.address + total);
        ddp.last = false;
        put(fpdu(segment(ddp), crc));
    }
    /** One segment of it. */
    void part(const RemoteSpan &to, std::uint64_t at, size_t bytes, bool last) const
    {
        vipl_ddp ddp = tagged(VIPL_RDMAP_WRITE, to.handle, to.address + at);
        ddp.last = last;
        put(fpdu(segment(ddp, Bytes(bytes, 0xEE)), crc));
    }
    void parts(const RemoteSpan &to, size_t total) const
    {
        for (size_t at = 0; at < total; at += kPart) {
            part(to, at, std::min<size_t>(kPart, total - at), total - at <= kPart);
        }
    }

    bool crc;
    Vi vi;
    Fd fd;
};

/** The Terminate that ends a stream; its reason is 0xFFFF if none does. *responses: what RDMA Reads
 * brought. */
vipl_rdmap_terminate terminate_in(const Bytes &stream, Bytes *responses = nullptr)
{
    vipl_rdmap_terminate terminate{};
    terminate.reason = 0xFFFF;
    for (size_t at = 0; at + 2 < stream.size();) {
        const size_t left = stream.size() - at - 2, ulpdu = vipl_get16(&stream[at]),
                     some = std::min(left, ulpdu);
        vipl_ddp ddp{};
        EXPECT(vipl_ddp_read(&stream[at + 2], some, &ddp) == VIPL_DDP_OK || some < ulpdu);
        if (ddp.header_bytes > 0 && responses != nullptr && ddp.op == VIPL_RDMAP_READ_RESPONSE) {
            const auto begin = stream.begin() + static_cast<std::ptrdiff_t>(at + 2);
            responses->insert(responses->end(), begin + VIPL_DDP_TAGGED_BYTES,
                              begin + static_cast<std::ptrdiff_t>(some));
        }
        if (some == ulpdu && ddp.op == VIPL_RDMAP_TERMINATE) {
            EXPECT(vipl_rdmap_terminate_read(&stream[at + 2 + ddp.header_bytes], ulpdu - ddp.header_bytes,
                                             &terminate));
        }
        at += vipl_mpa_fpdu_bytes(ulpdu);
    }
    return terminate;
}

/** It must end so, with that report. */
void expect_end(const Scenery &scenery, const Session &session, unsigned reason, VIP_ERROR_CODE code,
                unsigned nth = 1)
{
    const vipl_rdmap_terminate got = terminate_in(take_all(session.fd));
    EXPECT_EQ(reason, unsigned{got.reason});
    EXPECT(got.with_ddp);
    session.vi.await(VIP_STATE_ERROR);
    scenery.reports.expect(code, nth);
}

void await_byte(const Span &where, VIP_UINT8 value)
{
    const unsigned long long end = now_ms() + patience();
    while (where.poll_last() != value && now_ms() < end) {
        give_way();
    }
    EXPECT_EQ(value, where.poll_last());
}

/** An unreliable connection lives: what is right is placed. */
void expect_life(Scenery &scenery, const Session &session)
{
    EXPECT_EQ(VIP_STATE_CONNECTED, session.vi.state());
    session.announce(scenery.wide.remote(), kWide);
    session.parts(scenery.wide.remote(), kWide);
    await_byte(scenery.wide.window(), 0xEE);
    EXPECT(scenery.wide.window().all(0xEE));
    scenery.wide.everything().fill(1);
}

} // namespace

TEST_CASE("a long write that does not fit moves nothing, whatever its segments fit", "[rules]")
{
    const bool crc = GENERATE(false, true);
    const VIP_UINT16 level =
        GENERATE(VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION);
    Scenery scenery;
    const Session session(scenery, level, crc);
    session.announce(scenery.wide.remote(), kWide + 1);
    session.parts(scenery.wide.remote(), kWide + 1);
    scenery.reports.expect(VIP_ERROR_RDMAW_PROT, 1);
    if (level == VIP_SERVICE_UNRELIABLE) {
        put_out(session.fd, read_frame({0, 0}, 0, 1,
                                       crc)); // an empty one is answered at every level, so all else is over
        REQUIRE_FALSE(take_in(session.fd, 64).empty());
        REQUIRE(scenery.untouched());
        expect_life(scenery, session);
        scenery.reports.expect(VIP_ERROR_RDMAW_PROT, 1);
    } else {
        expect_end(scenery, session, VIPL_TERM_DDP_TAGGED_BOUNDS, VIP_ERROR_RDMAW_PROT);
        REQUIRE(scenery.untouched());
    }
}

TEST_CASE("a write that goes beyond the end it announced is a protection error", "[rules]")
{
    Scenery scenery;
    const RemoteSpan to = scenery.wide.remote();
    const Bytes before(scenery.wide.window().data, scenery.wide.window().data + kWide);
    {
        const Session session(scenery, VIP_SERVICE_RELIABLE_DELIVERY);
        session.announce(to, 1000);
        session.part(to, 0, 500, false); // this one may
        session.part(to, 500, 501, true);
        expect_end(scenery, session, VIPL_TERM_DDP_TAGGED_BOUNDS, VIP_ERROR_RDMAW_PROT, 1);
        REQUIRE(scenery.wide.window().part(0, 500).all(0xEE));
        const Span window = scenery.wide.window();
        REQUIRE(std::equal(window.data + 500, window.data + kWide, before.data() + 500));
        scenery.wide.everything().fill(1);
    }
    {
        const Session session(scenery,
                              VIP_SERVICE_RELIABLE_DELIVERY); // a large one, which is placed directly
        session.announce(to, 1000);
        session.part(to, 0, kPart, false);
        expect_end(scenery, session, VIPL_TERM_DDP_TAGGED_BOUNDS, VIP_ERROR_RDMAW_PROT, 2);
    }
    {
        const Session session(scenery, VIP_SERVICE_RELIABLE_DELIVERY); // begins behind it
        session.announce(to, 1000);
        session.part(to, 2000, 10, false);
        expect_end(scenery, session, VIPL_TERM_DDP_TAGGED_BOUNDS, VIP_ERROR_RDMAW_PROT, 3);
    }
    REQUIRE(scenery.untouched());
}

TEST_CASE("a write that ends before the end it announced is a protection error", "[rules]")
{
    Scenery scenery;
    const Session session(scenery, VIP_SERVICE_RELIABLE_RECEPTION);
    session.announce(scenery.wide.remote(), 1000);
    session.part(scenery.wide.remote(), 0, 999, true);
    expect_end(scenery, session, VIPL_TERM_DDP_TAGGED_BOUNDS, VIP_ERROR_RDMAW_PROT);
    REQUIRE(scenery.untouched());
}

TEST_CASE("a write of many segments that announces no end makes no sense", "[rules]")
{
    const VIP_UINT16 level = GENERATE(VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY);
    const size_t bytes = GENERATE(100, 60000);
    Scenery scenery;
    const Session session(scenery, level);
    session.part(scenery.wide.remote(), 0, bytes, false);
    session.part(scenery.wide.remote(), bytes, bytes, true);
    expect_end(scenery, session, VIPL_TERM_RDMAP_UNSPECIFIED, VIP_ERROR_RDMA_TRANSPORT);
    REQUIRE(scenery.untouched());
}

TEST_CASE("of a refused write nothing is placed, and no immediate data delivered, though the rest would fit",
          "[rules]")
{
    const size_t bytes = GENERATE(2000, 60000);
    Scenery scenery;
    const Session session(scenery, VIP_SERVICE_UNRELIABLE);
    Memory memory(scenery.nic, 4096, rdma_memory(scenery.own));
    const Work receive = memory.transfer(memory.bytes(64));
    post_recv(session.vi, receive);
    const RemoteSpan to = scenery.wide.remote();
    session.announce(to, bytes);
    session.part(to, 0 - std::uint64_t{100}, 100, false); // not in the region
    session.part(to, 0, bytes, true);                     // in it
    Bytes immediate(VIPL_RDMAP_IMMEDIATE_BYTES, 3);
    session.put(fpdu(segment(untagged(VIPL_RDMAP_IMMEDIATE, VIPL_DDP_QUEUE_SEND, 1), immediate), false));
    session.put(fpdu(segment(untagged(VIPL_RDMAP_SEND, VIPL_DDP_QUEUE_SEND, 2), Bytes(5, 7)), false));
    EXPECT(received(session.vi) == receive.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, receive.desc);
    EXPECT_EQ(VIP_UINT32{5}, receive.desc->CS.Length);
    scenery.reports.expect(VIP_ERROR_RDMAW_PROT, 1);
    REQUIRE(scenery.untouched());
    expect_life(scenery, session);
}

TEST_CASE("memory of another tag, and a VI that enables no RDMA, have codes of their own", "[rules]")
{
    Scenery scenery;
    const RemoteSpan strange = scenery.of_stranger.remote(), right = scenery.open.remote();
    VIP_VI_ATTRIBUTES closed = scenery.attributes(VIP_SERVICE_RELIABLE_DELIVERY);
    closed.EnableRdmaRead = closed.EnableRdmaWrite = VIP_FALSE;
    const VIP_VI_ATTRIBUTES open = scenery.attributes(VIP_SERVICE_RELIABLE_DELIVERY);
    const struct {
        const VIP_VI_ATTRIBUTES &attributes;
        Bytes bytes;
        unsigned reason;
        bool write;
    } cases[] = {{open, write_frame(strange, Bytes(8)), VIPL_TERM_DDP_TAGGED_NOT_ASSOCIATED, true},
                 {open, read_frame(strange, 8, 1), VIPL_TERM_RDMAP_STAG_NOT_ASSOCIATED, false},
                 {closed, write_frame(right, Bytes(8)), VIPL_TERM_RDMAP_ACCESS, true},
                 {closed, read_frame(right, 8, 1), VIPL_TERM_RDMAP_ACCESS, false}};
    unsigned of[2] = {0, 0};
    for (const auto &each : cases) {
        const Session session(scenery, each.attributes);
        session.put(each.bytes);
        const vipl_rdmap_terminate got = terminate_in(take_all(session.fd));
        EXPECT_EQ(each.reason, unsigned{got.reason});
        EXPECT(got.with_ddp && got.with_read == !each.write);
        session.vi.await(VIP_STATE_ERROR);
        scenery.reports.expect(each.write ? VIP_ERROR_RDMAW_PROT : VIP_ERROR_RDMAR_PROT,
                               ++of[each.write ? 1 : 0]);
    }
    REQUIRE(scenery.untouched());
    REQUIRE(scenery.of_stranger.untouched());
}

TEST_CASE(
    "an RDMA Read on an unreliable connection, and a Send where immediate data was promised, are unexpected",
    "[rules]")
{
    Scenery scenery;
    {
        const Session session(scenery, VIP_SERVICE_UNRELIABLE);
        session.put(read_frame(scenery.read_only.remote(), 8, 1));
        expect_end(scenery, session, VIPL_TERM_RDMAP_OPCODE, VIP_ERROR_RDMA_TRANSPORT, 1);
    }
    {
        const Session session(scenery, VIP_SERVICE_RELIABLE_DELIVERY);
        Memory memory(scenery.nic, 4096, rdma_memory(scenery.own));
        const Work receive = memory.transfer(memory.bytes(64));
        post_recv(session.vi, receive);
        session.put(fpdu(segment(untagged(VIPL_RDMAP_SEND_SE, VIPL_DDP_QUEUE_SEND, 1), Bytes(5)), false));
        session.put(fpdu(segment(untagged(VIPL_RDMAP_SEND, VIPL_DDP_QUEUE_SEND, 2), Bytes(5)), false));
        expect_end(scenery, session, VIPL_TERM_RDMAP_OPCODE, VIP_ERROR_RDMA_TRANSPORT, 2);
    }
}

TEST_CASE("no memory for the rest of a segment is a catastrophe of ours, which the peer is told", "[rules]")
{
    Scenery scenery;
    const Session session(scenery, VIP_SERVICE_RELIABLE_DELIVERY, true);
    const Bytes whole = fpdu(segment(untagged(VIPL_RDMAP_SEND, VIPL_DDP_QUEUE_SEND, 1), Bytes(50000)), true);
    vipl_alloc_fail_after(1);
    put_out(session.fd, whole.data(), 1000);
    const vipl_rdmap_terminate got = terminate_in(take_all(session.fd));
    session.vi.await(VIP_STATE_ERROR);
    vipl_alloc_fail_after(-1);
    EXPECT_EQ(unsigned{VIPL_TERM_RDMAP_LOCAL_CATASTROPHIC}, unsigned{got.reason});
    EXPECT(!got.with_ddp && !got.with_read);
}

namespace {

/** More responses than sockets take, and they are not received; then what else is requested. All of
 * it has been read when this returns. */
void ask_for_much(const Scenery &scenery, const Session &session, const RemoteSpan &from, VIP_UINT32 bytes,
                  unsigned times, const Bytes &rest = {})
{
    Memory memory(scenery.nic, 4096, rdma_memory(scenery.own));
    const Work receive = memory.transfer(memory.bytes(64));
    post_recv(session.vi, receive);
    Bytes stream;
    for (std::uint32_t msn = 1; msn <= times; ++msn) {
        const Bytes read = read_frame(from, bytes, msn, session.crc);
        stream.insert(stream.end(), read.begin(), read.end());
    }
    stream.insert(stream.end(), rest.begin(), rest.end());
    session.put(stream);
    session.put(fpdu(segment(untagged(VIPL_RDMAP_SEND, VIPL_DDP_QUEUE_SEND, 1), Bytes(5)), session.crc));
    EXPECT(received(session.vi) == receive.desc);
}

/** So many bytes of the stream that comes. */
Bytes take_exactly(const Session &session, size_t bytes)
{
    Bytes all;
    while (all.size() < bytes) {
        const Bytes more = take_in(session.fd, bytes - all.size());
        EXPECT(!more.empty());
        all.insert(all.end(), more.begin(), more.end());
    }
    return all;
}

} // namespace

TEST_CASE("the CRC of a response is right although its memory changes while it is sent", "[rules]")
{
    constexpr VIP_UINT32 kBytes = 4 << 20;
    Scenery scenery;
    Memory memory(scenery.nic, kBytes, rdma_memory(scenery.own));
    const Session session(scenery, VIP_SERVICE_RELIABLE_DELIVERY, true);
    ask_for_much(scenery, session, {reinterpret_cast<uintptr_t>(memory.data()), memory.handle()}, kBytes, 8);
    [[maybe_unused]] VIP_UINT8 value = 0; // now the socket is full, most likely in the middle of an FPDU
    for (size_t payload = 0; payload < size_t{8} * kBytes;) {
#if !defined(__SANITIZE_THREAD__) // which reports just that
        std::memset(memory.data(), ++value, kBytes);
#endif
        Bytes frame = take_exactly(session, VIPL_MPA_HEADER_BYTES);
        const size_t ulpdu = vipl_get16(frame.data());
        const Bytes rest = take_exactly(session, vipl_mpa_fpdu_bytes(ulpdu) - frame.size());
        frame.insert(frame.end(), rest.begin(), rest.end());
        EXPECT(vipl_mpa_crc_is_right(frame.data(), frame.size()));
        payload += ulpdu - VIPL_DDP_TAGGED_BYTES;
    }
}

TEST_CASE("an answer to an RDMA Read stops where its memory is deregistered", "[rules]")
{
    constexpr VIP_UINT32 kBytes = 4 << 20;
    Scenery scenery;
    std::vector<VIP_UINT8> secret(kBytes, 1);
    VIP_MEM_ATTRIBUTES rights = rdma_memory(scenery.own);
    VIP_MEM_HANDLE handle = 0;
    REQUIRE_VIP(VipRegisterMem(scenery.nic, secret.data(), kBytes, &rights, &handle));
    const Session session(scenery, VIP_SERVICE_RELIABLE_DELIVERY);
    ask_for_much(scenery, session, {reinterpret_cast<uintptr_t>(secret.data()), handle}, kBytes, 8);
    REQUIRE_VIP(VipDeregisterMem(scenery.nic, secret.data(), handle));
    std::memset(secret.data(), 0xEE, kBytes); // is nobody's but the program's
    Bytes got;
    terminate_in(take_all(session.fd), &got);
    REQUIRE(std::count(got.begin(), got.end(), 1) == static_cast<std::ptrdiff_t>(got.size()));
    REQUIRE(got.size() < std::size_t{8} * kBytes);
    session.vi.await(VIP_STATE_ERROR);
    scenery.reports.expect(VIP_ERROR_RDMAR_PROT, 1);
}

TEST_CASE("an answer whose memory goes before it begins is refused, and the peer told why", "[rules]")
{
    constexpr VIP_UINT32 kBytes = 4 << 20;
    Scenery scenery;
    Memory large(scenery.nic, kBytes, rdma_memory(scenery.own)),
        next(scenery.nic, 4096, rdma_memory(scenery.own));
    const Session session(scenery, VIP_SERVICE_RELIABLE_DELIVERY);
    const RemoteSpan last = {reinterpret_cast<uintptr_t>(next.data()), next.handle()};
    ask_for_much(scenery, session, {reinterpret_cast<uintptr_t>(large.data()), large.handle()}, kBytes, 8,
                 read_frame(last, 100, 9));
    next.deregister();
    Bytes got;
    const vipl_rdmap_terminate terminate = terminate_in(take_all(session.fd), &got);
    session.vi.await(VIP_STATE_ERROR);
    REQUIRE(got.size() == std::size_t{8} * kBytes);
    EXPECT_EQ(unsigned{VIPL_TERM_RDMAP_INVALID_STAG}, unsigned{terminate.reason});
    EXPECT(terminate.with_ddp && terminate.with_read);
    EXPECT_EQ(9u, terminate.ddp.msn);
    EXPECT_EQ(last.handle, terminate.read.source_stag);
    EXPECT_EQ(last.address, terminate.read.source_offset);
    EXPECT_EQ(100u, terminate.read.bytes);
    scenery.reports.expect(VIP_ERROR_RDMAR_PROT, 1);
}

TEST_CASE("a connect request of another version of this library is not accepted", "[rules]")
{
    Scenery scenery;
    for (const unsigned version : {0u, 1u, 3u, 255u}) {
        const Fd fd = dial();
        Bytes request = mpa_request(scenery.name);
        request[VIPL_MPA_START_BYTES + VIPL_MPA_ENHANCED_BYTES + 4] = static_cast<VIP_UINT8>(version);
        put_out(fd, request);
        Crew crew;
        crew.add([&] { EXPECT(take_all(fd).empty()); });
        NetAddress local = scenery.nic.address(scenery.name), from;
        VIP_VI_ATTRIBUTES attributes{};
        VIP_CONN_HANDLE connection = nullptr;
        REQUIRE_RC(VIP_TIMEOUT, VipConnectWait(scenery.nic, local, 50, from, &attributes, &connection));
        crew.join();
    }
}

TEST_CASE("a request is for the discriminator of the port that it came to, or for nobody", "[rules]")
{
    const Nic nic;
    const std::string here = unique_discriminator(), elsewhere = unique_discriminator();
    open_port(nic, here); // which is where raw sockets go
    NetAddress local = nic.address(elsewhere), from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    REQUIRE_RC(VIP_TIMEOUT, VipConnectWait(nic, local, 0, from, &attributes, &connection));
    const Fd fd = dial();
    put_out(fd, mpa_request(elsewhere));
    REQUIRE_RC(VIP_TIMEOUT, VipConnectWait(nic, local, kMoment, from, &attributes, &connection));
    REQUIRE_FALSE(mpa_accepted(fd)); // it has been refused, and does not wait
}

TEST_CASE("long writes through small socket buffers arrive whole, wherever they are cut", "[rules]")
{
    constexpr VIP_UINT32 kSizes[] = {65501, 70001, 131000, 131001, 200003, 300000};
    constexpr unsigned kRounds = 3;
    setenv("VIPL_TCP_BUFFER", "65536", 1); // with much less TCP itself waits
    const Nic nic;
    unsetenv("VIPL_TCP_BUFFER");
    const VIP_VI_ATTRIBUTES attributes = vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY, 1 << 20);
    Memory from(nic, 2 << 20), to(nic, 2 << 20, rdma_memory());
    const Vi writer(nic, attributes), target(nic, attributes);
    connect_pair(nic, target, nic, writer);
    for (unsigned round = 0; round < kRounds; ++round) {
        std::vector<Span> sources, targets;
        std::vector<Work> works;
        Memory descriptors(nic, 64 * 1024);
        VIP_UINT8 *source = from.data() + round, *there = to.data() + 3 * round;
        for (const VIP_UINT32 size : kSizes) {
            sources.push_back({source, size, from.handle()});
            targets.push_back({there, size, to.handle()});
            sources.back().fill(round + size);
            source += size;
            there += size;
        }
        for (size_t i = 0; i < sources.size(); ++i) { // in a row, so that each begins where there is no room
            works.push_back(descriptors.rdma(VIP_CONTROL_OP_RDMAWRITE, targets[i].remote(), sources[i]));
            post_send(writer, works.back());
        }
        for (size_t i = 0; i < sources.size(); ++i) {
            EXPECT(sent(writer) == works[i].desc);
            EXPECT(std::equal(sources[i].data, sources[i].data + sources[i].size, targets[i].data));
        }
    }
}

namespace {

Bytes send_frame(std::uint32_t msn, bool with_immediate)
{
    const auto op = with_immediate ? VIPL_RDMAP_SEND_SE : VIPL_RDMAP_SEND;
    return fpdu(segment(untagged(op, VIPL_DDP_QUEUE_SEND, msn), Bytes(5, 7)), false);
}

Bytes immediate_frame(std::uint32_t msn)
{
    return fpdu(segment(untagged(VIPL_RDMAP_IMMEDIATE, VIPL_DDP_QUEUE_SEND, msn),
                        Bytes(VIPL_RDMAP_IMMEDIATE_BYTES, 3)),
                false);
}

Bytes operator+(Bytes bytes, const Bytes &more)
{
    bytes.insert(bytes.end(), more.begin(), more.end());
    return bytes;
}

/** Messages that their sender wants confirmed. */
struct Confirmed {
    VIP_RELIABILITY_LEVEL level;
    Bytes message;
    VIP_UINT32 status; // of the receive
    VIP_UINT32 bytes;
};

std::vector<Confirmed> confirmed_messages(const RemoteSpan &to)
{
    const Bytes send = send_frame(1, false), send_immediate = send_frame(1, true) + immediate_frame(2),
                write = write_frame(to, Bytes(9, 0xEE)) + immediate_frame(1);
    constexpr VIP_UINT32 kSent = VIP_STATUS_OP_RECEIVE, kImmediate = VIP_STATUS_IMMEDIATE,
                         kWritten = VIP_STATUS_OP_REMOTE_RDMA_WRITE | kImmediate;
    return {{VIP_SERVICE_RELIABLE_RECEPTION, send, kSent, 5},
            {VIP_SERVICE_RELIABLE_RECEPTION, send_immediate, kSent | kImmediate, 5},
            {VIP_SERVICE_RELIABLE_RECEPTION, write, kWritten, 9},
            {VIP_SERVICE_RELIABLE_DELIVERY, write, kWritten, 9}};
}

} // namespace

TEST_CASE("who hears a message that is to be confirmed and disconnects at once has confirmed it", "[rules]")
{
    Scenery scenery;
    Memory memory(scenery.nic, 4096, rdma_memory(scenery.own));
    for (const Confirmed &each : confirmed_messages(scenery.wide.remote())) {
        const Session session(scenery, each.level);
        const Work receive = memory.transfer(memory.bytes(64));
        VIP_DESCRIPTOR *done = nullptr;
        post_recv(session.vi, receive);
        session.put(each.message);
        REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(session.vi, kMoment, &done)); // it could not confirm it yet
        session.put(read_frame({0, 0}, 0, 1));
        EXPECT(received(session.vi) == receive.desc);
        REQUIRE_VIP(VipDisconnect(session.vi));
        EXPECT_STATUS(each.status, receive.desc);
        EXPECT_EQ(each.bytes, receive.desc->CS.Length);
        const Bytes answer = take_all(session.fd);
        vipl_ddp ddp{};
        REQUIRE(answer.size() == vipl_mpa_fpdu_bytes(VIPL_DDP_TAGGED_BYTES));
        REQUIRE(vipl_ddp_read(&answer[VIPL_MPA_HEADER_BYTES], VIPL_DDP_TAGGED_BYTES, &ddp) == VIPL_DDP_OK);
        EXPECT_EQ(unsigned{VIPL_RDMAP_READ_RESPONSE}, unsigned{ddp.op});
    }
}

TEST_CASE("messages that are not to be confirmed complete when they are there", "[rules]")
{
    Scenery scenery;
    Memory memory(scenery.nic, 4096, rdma_memory(scenery.own));
    const Bytes write = write_frame(scenery.wide.remote(), Bytes(9, 0xEE)) + immediate_frame(1);
    const struct {
        VIP_RELIABILITY_LEVEL level;
        Bytes message;
    } cases[] = {{VIP_SERVICE_UNRELIABLE, send_frame(1, false)},
                 {VIP_SERVICE_UNRELIABLE, send_frame(1, true) + immediate_frame(2)},
                 {VIP_SERVICE_UNRELIABLE, write},
                 {VIP_SERVICE_RELIABLE_DELIVERY, send_frame(1, false)},
                 {VIP_SERVICE_RELIABLE_DELIVERY, send_frame(1, true) + immediate_frame(2)}};
    for (const auto &each : cases) {
        const Session session(scenery, each.level);
        const Work receive = memory.transfer(memory.bytes(64));
        post_recv(session.vi, receive);
        session.put(each.message);
        EXPECT(received(session.vi) == receive.desc);
    }
}

TEST_CASE("a message where the one before is still to be confirmed is unexpected", "[rules]")
{
    Scenery scenery;
    Memory memory(scenery.nic, 4096, rdma_memory(scenery.own));
    unsigned count = 0;
    for (const Bytes &next : {send_frame(2, false), send_frame(2, true), immediate_frame(2)}) {
        const Session session(scenery, VIP_SERVICE_RELIABLE_RECEPTION);
        const Work first = memory.transfer(memory.bytes(64)), second = memory.transfer(memory.bytes(64));
        post_recv(session.vi, first);
        post_recv(session.vi, second);
        session.put(send_frame(1, false) + next);
        expect_end(scenery, session, VIPL_TERM_RDMAP_OPCODE, VIP_ERROR_RDMA_TRANSPORT, ++count);
        for (const Work *work : {&first, &second}) {
            EXPECT(receive_failed(session.vi) == work->desc);
        }
    }
}

namespace {

/** True: it took a byte each 50 ms for so long; false: it was closed meanwhile. */
bool takes_bytes(const Fd &fd, unsigned long long ms)
{
    for (const unsigned long long end = now_ms() + ms; now_ms() < end;) {
        pollfd entry = {fd.get(), 0, 0}; // a reset
        if (!put_out(fd, Bytes(1)) || poll(&entry, 1, 50) != 0) {
            return false;
        }
    }
    return true;
}

} // namespace

TEST_CASE("a stream that we have ended is closed once it is delivered, or after the configured time",
          "[rules]")
{
    constexpr VIP_UINT32 kBytes = 4 << 20;
    const bool full = GENERATE(false, true);
    const unsigned configured = GENERATE(1000u, 20000u);
    setenv("VIPL_TCP_TIMEOUT_MS", std::to_string(configured).c_str(), 1);
    Scenery scenery;
    unsetenv("VIPL_TCP_TIMEOUT_MS");
    Memory large(scenery.nic, kBytes, rdma_memory(scenery.own));
    const Session session(scenery, VIP_SERVICE_RELIABLE_DELIVERY);
    if (full) { // what is on its way to us cannot arrive
        ask_for_much(scenery, session, {reinterpret_cast<uintptr_t>(large.data()), large.handle()}, kBytes,
                     8);
    }
    session.part(scenery.wide.remote(), 0, 100, false); // makes no sense
    session.vi.await(VIP_STATE_ERROR);
    if (!full) {
        EXPECT_EQ(unsigned{VIPL_TERM_RDMAP_UNSPECIFIED},
                  unsigned{terminate_in(take_in(session.fd, 4096)).reason});
    }
    if (full && configured == 20000) {
        REQUIRE(takes_bytes(session.fd, 2500)); // longer than where it is delivered
    } else {
        REQUIRE_FALSE(takes_bytes(session.fd, patience()));
    }
}
