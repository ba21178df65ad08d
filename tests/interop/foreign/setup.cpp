// SPDX-License-Identifier: MIT
//
// How a connection with a foreign peer starts: every combination of revision and flags that it may
// ask or answer with, each followed by every kind of message; who speaks first; refusals,
// disagreement, older revisions.
#include <catch2/catch.hpp>

#include "exercise.hpp"
#include "support/forked.hpp"

using namespace foreign;

namespace {

constexpr unsigned kOurReads = 16, kAsked = 64;

/** M, C, then without RFC 6581 in revision 1 and 2, and with it in all combinations of A, B, C,
 * D. */
constexpr unsigned kWishes = 4 * (2 + 16);

struct Wish {
    explicit Wish(unsigned n)
    {
        frame.markers = (n & 1) != 0;
        frame.crc = (n & 2) != 0;
        n /= 4;
        frame.revision = n == 0 ? 1 : 2;
        frame.enhanced = n >= 2;
        n = n >= 2 ? n - 2 : 0;
        enhanced.peer_to_peer = (n & 1) != 0;
        enhanced.rtr_send = (n & 2) != 0;
        enhanced.rtr_write = (n & 4) != 0;
        enhanced.rtr_read = (n & 8) != 0;
        enhanced.ird = 5;
        enhanced.ord = 40;
    }
    bool ready() const { return frame.enhanced && enhanced.peer_to_peer; }
    /** What the two ends are to agree on. */
    int ready_op() const
    {
        return enhanced.rtr_write  ? VIPL_RDMAP_WRITE
               : enhanced.rtr_read ? VIPL_RDMAP_READ_REQUEST
               : enhanced.rtr_send ? VIPL_RDMAP_SEND
                                   : VIPL_RDMAP_WRITE;
    }
    std::string text() const
    {
        const auto bit = [](bool b, const char *name) { return b ? std::string(name) : std::string("-"); };
        return "revision " + std::to_string(frame.revision) + " " + bit(frame.markers, "M") +
               bit(frame.crc, "C") + bit(frame.enhanced, "S") + " " + bit(enhanced.peer_to_peer, "A") +
               bit(enhanced.rtr_send, "B") + bit(enhanced.rtr_write, "C") + bit(enhanced.rtr_read, "D");
    }

    vipl_mpa_start frame{};
    vipl_mpa_enhanced enhanced{};
};

void expect_reply(const Start &reply, const Wish &wish, bool crc)
{
    EXPECT(reply.frame.reply && !reply.frame.reject && !reply.frame.markers);
    EXPECT_EQ(+wish.frame.revision, +reply.frame.revision);
    EXPECT_EQ(wish.frame.enhanced, reply.frame.enhanced);
    EXPECT_EQ(crc, reply.frame.crc);
    EXPECT(reply.data.empty());
    if (wish.frame.enhanced) {
        const vipl_mpa_enhanced &got = reply.enhanced;
        EXPECT_EQ(wish.enhanced.peer_to_peer, got.peer_to_peer);
        EXPECT_EQ(wish.ready() && wish.ready_op() == VIPL_RDMAP_SEND, got.rtr_send);
        EXPECT_EQ(wish.ready() && wish.ready_op() == VIPL_RDMAP_WRITE, got.rtr_write);
        EXPECT_EQ(wish.ready() && wish.ready_op() == VIPL_RDMAP_READ_REQUEST, got.rtr_read);
        EXPECT_EQ(std::min<unsigned>(wish.enhanced.ird, kOurReads), unsigned{got.ord});
        EXPECT_EQ(std::min<unsigned>(wish.enhanced.ord, kOurReads), unsigned{got.ird});
    }
}

void send_ready(Peer &peer, int op)
{
    if (op == VIPL_RDMAP_WRITE) {
        peer.write(peer.segment(Peer::tagged(VIPL_RDMAP_WRITE)));
    } else if (op == VIPL_RDMAP_SEND) {
        peer.write(peer.send_message({}));
    } else {
        peer.write(peer.read_request({0x51, 0, 0, 0, 0}));
    }
}

/** A foreign requester with that wish; our side sends before it is allowed to. */
void ask(std::uint16_t port, const Wish &wish, bool ours_wants_crc)
{
    Side side(port);
    std::future<VIP_RETURN> accepted = std::async(std::launch::async, [&] { return side.wait_and_accept(); });
    Peer peer(call(port));
    peer.write(Peer::start(wish.frame, wish.enhanced, unit::bytes_of("00112233")));
    expect_reply(peer.read_start(), wish, peer.crc = wish.frame.crc || ours_wants_crc);
    peer.markers = wish.frame.markers;
    if (wish.ready()) {
        EXPECT(accepted.wait_for(std::chrono::milliseconds(5)) == std::future_status::timeout);
        send_ready(peer, wish.ready_op());
        REQUIRE_VIP(accepted.get());
        if (wish.ready_op() == VIPL_RDMAP_READ_REQUEST) {
            EXPECT(peer.take_tagged(VIPL_RDMAP_READ_RESPONSE, 0x51, 0).empty());
        }
        side.send({9});
    } else {
        REQUIRE_VIP(accepted.get());
        side.send({9});
        EXPECT(peer.quiet(10));
        peer.write(peer.send_message({1, 2, 3}));
        side.expect({1, 2, 3});
    }
    EXPECT(peer.take_send() == Bytes{9});
    EXPECT(sent(side.vi) == side.work.desc);
    exercise(side, peer);
    expect_no_immediate(side, peer);
    REQUIRE_VIP(VipDisconnect(side.vi));
    EXPECT(peer.over());
}

void expect_request(const Start &request, bool crc, unsigned revision = 2)
{
    EXPECT(!request.frame.reply && !request.frame.markers);
    EXPECT_EQ(crc, request.frame.crc);
    EXPECT_EQ(revision, unsigned{request.frame.revision});
    EXPECT_EQ(revision == 2, request.frame.enhanced);
    EXPECT(request.frame.private_bytes <= VIPL_MPA_OUR_PRIVATE);
    EXPECT(request.data.size() > 4 && std::memcmp(request.data.data(), "VIPL", 4) == 0);
    if (revision == 2) {
        EXPECT(request.enhanced.peer_to_peer && request.enhanced.rtr_send && request.enhanced.rtr_write &&
               request.enhanced.rtr_read);
        EXPECT_EQ(kAsked, unsigned{request.enhanced.ird});
        EXPECT_EQ(kAsked, unsigned{request.enhanced.ord});
    }
}

vipl_mpa_start reply_frame(vipl_mpa_start frame, bool reject = false)
{
    frame.reply = true;
    frame.reject = reject;
    return frame;
}

void take_ready(Side &side, Peer &peer, int op)
{
    const Segment first = peer.any();
    EXPECT_EQ(op, +first.ddp.op);
    EXPECT(first.ddp.last);
    if (op == VIPL_RDMAP_READ_REQUEST) {
        vipl_rdmap_read read;
        vipl_rdmap_read_read(first.payload.data(), &read);
        EXPECT_EQ(0u, read.bytes);
        ++peer.their_read;
        peer.write(peer.tagged_message(VIPL_RDMAP_READ_RESPONSE, read.sink_stag, read.sink_offset, {}));
    } else {
        EXPECT(first.payload.empty());
    }
    peer.their_send += op == VIPL_RDMAP_SEND ? 1 : 0;
    (void)side;
}

/** A foreign server that answers so. */
void answer(const Wish &wish, bool ours_wants_crc)
{
    const Listener listener;
    Side side(listener.port());
    std::future<VIP_RETURN> connected = std::async(std::launch::async, [&] { return side.request(); });
    Peer peer(listener.take());
    expect_request(peer.read_start(), ours_wants_crc);
    peer.write(Peer::start(reply_frame(wish.frame), wish.enhanced, unit::bytes_of("fe")));
    peer.crc = wish.frame.crc || ours_wants_crc;
    peer.markers = wish.frame.markers;
    REQUIRE_VIP(connected.get());
    if (wish.ready()) {
        take_ready(side, peer, wish.ready_op());
    }
    exercise(side, peer);
    expect_no_immediate(side, peer);
    REQUIRE_VIP(VipDisconnect(side.vi));
    EXPECT(peer.over());
}

void each_wish(void (*what)(const Wish &, bool))
{
    for (unsigned n = 0; n < 2 * kWishes; ++n) {
        const Wish wish(n / 2);
        const bool crc = n % 2 != 0;
        INFO(wish.text() << (crc ? ", ours wants CRC" : ""));
        setenv("VIPL_MPA_CRC", crc ? "on" : "off", 1);
        try {
            what(wish, crc);
        } catch (const Failure &failure) {
            FAIL(failure.what());
        }
    }
    setenv("VIPL_MPA_CRC", "off", 1);
}

/** What a request that the server answers so comes to; the peers it made, in turn. */
struct Refused {
    const Listener listener;
    Side side{listener.port()};
    std::future<VIP_RETURN> connected = std::async(std::launch::async, [this] { return side.request(); });

    Peer next(unsigned revision)
    {
        Peer peer(listener.take());
        expect_request(peer.read_start(), false, revision);
        return peer;
    }
};

vipl_mpa_start frame(std::uint8_t revision, bool enhanced = false)
{
    vipl_mpa_start made{};
    made.revision = revision;
    made.enhanced = enhanced;
    return made;
}

} // namespace

TEST_CASE("a foreign requester is answered as it asks", "[setup]")
{
    each_wish([](const Wish &wish, bool crc) { ask(free_port(), wish, crc); });
}

TEST_CASE("a foreign server's answer is taken as it is", "[setup]")
{
    each_wish(answer);
}

TEST_CASE("a foreign server that rejects is VIP_REJECT", "[setup]")
{
    Refused refused;
    Peer peer = refused.next(2);
    peer.write(Peer::start(reply_frame(frame(2, true), true), {}, unit::bytes_of("00")));
    REQUIRE_RC(VIP_REJECT, refused.connected.get());
    EXPECT(peer.over());
}

TEST_CASE("who knows revision 1 only is asked again in it", "[setup]")
{
    const bool says_so = GENERATE(false, true);
    Refused refused;
    {
        Peer peer = refused.next(2);
        if (says_so) {
            peer.write(Peer::start(reply_frame(frame(1), true), {}));
            EXPECT(peer.over());
        }
    }
    Peer peer = refused.next(1);
    SECTION("and takes it")
    {
        peer.write(Peer::start(reply_frame(frame(1)), {}));
        REQUIRE_VIP(refused.connected.get());
        EXPECT(peer.quiet(10) || peer.any().payload.empty()); // a slow machine's first nudge
        exercise(refused.side, peer);
    }
    SECTION("and rejects it")
    {
        peer.write(Peer::start(reply_frame(frame(1), true), {}));
        REQUIRE_RC(VIP_REJECT, refused.connected.get());
    }
}

TEST_CASE("who hangs up at both revisions is asked in turn", "[setup]")
{
    Refused refused;
    for (unsigned i = 0; i < 6; ++i) {
        refused.next(i % 2 == 0 ? 2 : 1);
    }
    Peer peer = refused.next(2);
    peer.write(Peer::start(reply_frame(frame(2, true), true), {}));
    REQUIRE_RC(VIP_REJECT, refused.connected.get());
}

TEST_CASE("who hangs up each time is asked until the time is up", "[setup]")
{
    const Listener listener;
    Side side(listener.port());
    NetAddress local = side.nic.address("me"), remote = side.nic.address("anybody");
    std::future<VIP_RETURN> connected = std::async(
        std::launch::async, [&] { return VipConnectRequest(side.vi, local, remote, 300, nullptr); });
    unsigned asked = 0;
    while (connected.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
        if (listener.is_called(kMoment)) {
            Peer peer(listener.take());
            peer.quiet(); // until its request has come, as a rule
            ++asked;
        }
    }
    CHECK(asked > 0);
    const VIP_RETURN rc = connected.get();
    CHECK((rc == VIP_NO_MATCH || rc == VIP_TIMEOUT)); /* the last has not been answered, perhaps */
}

TEST_CASE("a server that is not heard is nudged, and no more once it is", "[setup]")
{
    Refused refused;
    Peer peer = refused.next(2);
    peer.write(Peer::start(reply_frame(frame(2)), {}));
    REQUIRE_VIP(refused.connected.get());
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(refused.side.vi, 80, &done));
    const Segment nudge = peer.any();
    CHECK(nudge.ddp.op == VIPL_RDMAP_WRITE);
    CHECK(nudge.payload.empty());
    peer.write(peer.send_message({1}));
    refused.side.expect({1});
    while (!peer.quiet(0)) {
        CHECK(peer.any().payload.empty()); // a slow machine's next nudge
    }
    REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(refused.side.vi, 300, &done));
    CHECK(peer.quiet(0));
}

constexpr unsigned kSeconds = 30; // of a child that hangs

#if !defined(__SANITIZE_THREAD__) // which takes a descriptor that has the number of a closed one for that one

/** Close the sets of descriptors that libraries watch, as a program that closes all descriptors
 * does. */
static void close_pollers()
{
    for (int fd = 3; fd < 1100; ++fd) {
        char kind[64] = "";
        const std::string path = "/proc/self/fd/" + std::to_string(fd);
        if (readlink(path.c_str(), kind, sizeof kind - 1) > 0 &&
            std::strcmp(kind, "anon_inode:[eventpoll]") == 0) {
            close(fd);
        }
    }
}

TEST_CASE("a connection from which nothing has come is lost with the library's descriptors", "[setup]")
{
    Forked child(
        [](const ParentLine &) { // which ends without what the library cannot free any more
            const std::uint16_t port = free_port();
            Side side(port);
            std::future<VIP_RETURN> accepted =
                std::async(std::launch::async, [&] { return side.wait_and_accept(); });
            Peer peer(call(port));
            peer.write(Peer::start(frame(1), {}));
            peer.read_start();
            REQUIRE_VIP(accepted.get());
            close_pollers();
            VIP_DESCRIPTOR *done = nullptr;
            const VIP_RETURN rc = VipRecvWait(side.vi, patience(), &done);
            _exit(rc == VIP_DESCRIPTOR_ERROR && side.vi.state() == VIP_STATE_ERROR ? 7 : 8);
        },
        kSeconds);
    child.finish_with_exit(7);
}

#endif

TEST_CASE("a VI of another level does not agree with a foreign peer", "[setup]")
{
    const auto level = GENERATE(VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_RECEPTION);
    SECTION("that asks")
    {
        const std::uint16_t port = free_port();
        Side side(port, 1 << 16, vi_attributes(level));
        std::future<VIP_RETURN> accepted =
            std::async(std::launch::async, [&] { return side.wait_and_accept(); });
        Peer peer(call(port));
        peer.write(Peer::start(frame(2, true), {}));
        REQUIRE_RC(VIP_INVALID_RELIABILITY_LEVEL, accepted.get());
        const Start reply = peer.read_start();
        CHECK(reply.frame.reject);
        CHECK(reply.data.empty());
        CHECK(peer.over());
    }
    SECTION("that answers")
    {
        const Listener listener;
        Side side(listener.port(), 1 << 16, vi_attributes(level));
        std::future<VIP_RETURN> connected = std::async(std::launch::async, [&] { return side.request(); });
        Peer peer(listener.take());
        expect_request(peer.read_start(), false);
        peer.write(Peer::start(reply_frame(frame(2)), {}));
        REQUIRE_RC(VIP_INVALID_RELIABILITY_LEVEL, connected.get());
        CHECK(peer.over());
    }
}

TEST_CASE("who has agreed to say that it is ready, and does not, is waited for no longer than others",
          "[setup]")
{
    const bool leaves = GENERATE(false, true);
    const std::uint16_t port = free_port();
    setenv("VIPL_TCP_HANDSHAKE_MS", leaves ? "60000" : "100", 1);
    Side side(port);
    unsetenv("VIPL_TCP_HANDSHAKE_MS");
    std::future<VIP_RETURN> accepted = std::async(std::launch::async, [&] { return side.wait_and_accept(); });
    Peer peer(call(port));
    vipl_mpa_enhanced enhanced{};
    enhanced.peer_to_peer = enhanced.rtr_write = true;
    peer.write(Peer::start(frame(2, true), enhanced));
    peer.read_start();
    if (leaves) {
        peer = Peer(Socket());
    }
    REQUIRE_RC(VIP_TIMEOUT, accepted.get());
    CHECK(side.vi.state() == VIP_STATE_IDLE);
    if (!leaves) {
        CHECK(peer.over());
    }
}

TEST_CASE("a peer that answers no RDMA Reads is asked for none", "[setup]")
{
    const std::uint16_t port = free_port();
    Side side(port);
    std::future<VIP_RETURN> accepted = std::async(std::launch::async, [&] { return side.wait_and_accept(); });
    Peer peer(call(port));
    peer.write(Peer::start(frame(2, true), {}));
    CHECK(peer.read_start().enhanced.ord == 0);
    REQUIRE_VIP(accepted.get());
    exercise(side, peer, false);
}

TEST_CASE("no more RDMA Reads are under way than the peer takes", "[setup]")
{
    const std::uint16_t port = free_port();
    const std::uint16_t depth = GENERATE(std::uint16_t{1}, std::uint16_t{3});
    Side side(port);
    std::future<VIP_RETURN> accepted = std::async(std::launch::async, [&] { return side.wait_and_accept(); });
    Peer peer(call(port));
    vipl_mpa_enhanced enhanced{};
    enhanced.ird = depth;
    peer.write(Peer::start(frame(2, true), enhanced));
    peer.read_start();
    REQUIRE_VIP(accepted.get());
    peer.write(peer.send_message({1}));
    side.expect({1});
    std::vector<Work> reads;
    for (unsigned i = 0; i < 8; ++i) {
        reads.push_back(
            side.memory.rdma(VIP_CONTROL_OP_RDMAREAD, {kTheirMemory, kTheirStag}, side.out.part(i * 8, 8)));
        post_send(side.vi, reads.back());
    }
    std::vector<vipl_rdmap_read> open;
    for (unsigned i = 0; i < 8; ++i) {
        while (open.size() < std::min<std::size_t>(depth, 8 - i)) {
            open.push_back(peer.take_read_request());
        }
        EXPECT(peer.quiet(5));
        peer.write(peer.tagged_message(VIPL_RDMAP_READ_RESPONSE, open[0].sink_stag, open[0].sink_offset,
                                       pattern(8, i)));
        open.erase(open.begin());
        EXPECT(sent(side.vi) == reads[i].desc);
        EXPECT(bytes_at(reads[i].buffer, 8) == pattern(8, i));
    }
}

TEST_CASE("a request that is none costs its sender the connection", "[setup]")
{
    const std::uint16_t port = free_port();
    Side side(port);
    std::future<VIP_RETURN> accepted = std::async(std::launch::async, [&] { return side.wait_and_accept(); });
    Bytes unknown = Peer::start(frame(3), {}), none = Peer::start(frame(0), {}),
          much = Peer::start(frame(1), {});
    much[18] = 0x02; // 513 bytes of private data
    much[19] = 0x01;
    Bytes little = Peer::start(frame(2), {});
    little[16] |= 0x10; // RFC 6581, without its four bytes
    for (const Bytes &bad : {unknown, none, much, little, Peer::start(reply_frame(frame(1)), {})}) {
        Peer peer(call(port));
        peer.write(bad);
        CHECK(peer.over());
    }
    Peer peer(call(port)); // and nobody else
    peer.write(Peer::start(frame(1), {}));
    peer.read_start();
    REQUIRE_VIP(accepted.get());
    exercise(side, peer);
}

TEST_CASE("a request may come in two parts, split anywhere", "[setup]")
{
    const vipl_mpa_enhanced enhanced{};
    const Bytes request = Peer::start(frame(2, true), enhanced, unit::bytes_of("01020304"));
    for (std::size_t at = 1; at < request.size(); ++at) {
        const std::uint16_t port = free_port();
        Side side(port);
        std::future<VIP_RETURN> accepted =
            std::async(std::launch::async, [&] { return side.wait_and_accept(); });
        Peer peer(call(port));
        const auto middle = request.begin() + static_cast<std::ptrdiff_t>(at);
        peer.write(Bytes(request.begin(), middle));
        EXPECT(peer.quiet(2));
        peer.write(Bytes(middle, request.end()));
        peer.read_start();
        REQUIRE_VIP(accepted.get());
    }
}

TEST_CASE("a reply may come in two parts, split anywhere, with FPDUs behind it", "[setup]")
{
    const Bytes reply = Peer::start(reply_frame(frame(2, true)), {}, unit::bytes_of("01020304"));
    for (std::size_t at = 1; at < reply.size() + 3; ++at) {
        Refused refused;
        Peer peer = refused.next(2);
        Bytes all = unit::operator+(reply, peer.send_message({1, 2, 3}));
        const auto middle = all.begin() + static_cast<std::ptrdiff_t>(at);
        peer.write(Bytes(all.begin(), middle));
        EXPECT(peer.quiet(2) || peer.any().payload.empty()); // a slow machine's first nudge
        peer.write(Bytes(middle, all.end()));
        REQUIRE_VIP(refused.connected.get());
        refused.side.expect({1, 2, 3});
    }
}
