// SPDX-License-Identifier: MIT
//
// What a peer of another process can say over an established link: the rules of its messages, one
// by one, and what becomes of the link, the VI and the memory when it breaks them.
#include <catch2/catch.hpp>

#include "raw_peer.hpp"
#include "shown.hpp"
#include "support/portable.hpp"
#include "support/system.hpp"

using namespace unit;

namespace {

constexpr VIP_RELIABILITY_LEVEL kLevels[] = {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY,
                                             VIP_SERVICE_RELIABLE_RECEPTION};

/** A connected VI with 4 KiB of receive posted at 1024, and another one of the same link. */
struct Scene {
    explicit Scene(VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY)
        : peer(victim), memory(victim), vi(victim, peer, level)
    {
    }

    /** What the victim says to a message; its type 0: nothing. */
    lo_message say(lo_message message, const void *payload = nullptr, std::uint32_t bytes = 0)
    {
        message.session = vi.number;
        REQUIRE(peer.send(message, payload, bytes));
        victim.progress();
        lo_message answer{};
        return peer.receive(LO_ACK, answer) ? answer : lo_message{};
    }
    VIP_RETURN received()
    {
        VIP_DESCRIPTOR *done = nullptr;
        return VipRecvDone(vi.handle, &done);
    }

    Victim victim;
    RawPeer peer;
    VictimMemory memory;
    VictimVi vi;
};

lo_message message_of(std::uint8_t type, std::uint8_t flags, std::uint32_t total, std::uint32_t slot = 0)
{
    lo_message message{};
    message.type = type;
    message.flags = flags;
    message.total = total;
    message.slot = slot;
    return message;
}

struct Target {
    std::uint64_t address;
    std::uint32_t handle;
    std::uint32_t none;
};

constexpr std::uint32_t kTicket = 3;

bool may_fetch()
{
    vipl_peer self{};
    self.pid = vipl_pid();
    return vipl_peer_mark_make(&self.mark) == 0 &&
           vipl_peer_copy_lists(&self, false, nullptr, 0, nullptr, 0, 0) == 0;
}

/** A payload of pieces: where a message lies, for the victim to fetch. */
std::vector<std::uint64_t> pieces(const std::vector<unsigned char> &bytes, std::uint64_t claimed)
{
    return {reinterpret_cast<std::uintptr_t>(bytes.data()), claimed};
}

lo_message pull(std::uint32_t total, std::uint32_t life = 0)
{
    return message_of(LO_RENDEZVOUS, LO_FLAG_LAST | LO_FLAG_ACK, total, lo_slot_name(kTicket, life));
}

} // namespace

TEST_CASE("a fetched message whose send was flushed meanwhile is dropped, and the receive waits on", "[peer]")
{
    Scene s;
    s.memory.post_recv(s.vi, 1024, 4096);
    const std::vector<unsigned char> text(4096, 0x11);
    const auto list = pieces(text, text.size());
    s.peer.out.shared->generations[kTicket] = 7; // it was 6 when the message was written
    CHECK(s.say(pull(4096, 6), list.data(), 16).total == 0);
    CHECK(s.received() == VIP_NOT_DONE);
    CHECK(s.vi.state() == VIP_STATE_CONNECTED);
    if (!may_fetch()) {
        WARN("this system does not let a process fetch from itself: emulators do not");
        return;
    }
    CHECK(s.say(pull(4096, 7), list.data(), 16).total == 0);
    CHECK(s.received() == VIP_SUCCESS);
}

TEST_CASE("a message in memory that the peer shows is copied from there, whatever its addresses are",
          "[peer]")
{
    const Shown shown;
    Scene s;
    s.memory.post_recv(s.vi, 1024, 4096);
    const vipl_mappable where = shown.at(65536, 4096);
    if (!vipl_test::library_shows_memory()) {
        WARN("the library shows no memory here");
        return;
    }
    std::memset(shown.base + 65536, 0x5A, 4096);
    const std::uint64_t start = 0x1000; // nothing is there
    std::uint64_t list[5] = {start + 65536, 4096, where.descriptor, where.inode, start};
    lo_message message = pull(4096);
    message.flags |= LO_FLAG_MAPPABLE;
    const std::uint32_t descriptor[2] = {where.descriptor, 0};
    std::memcpy(&list[2], descriptor, 8);
    CHECK(s.say(message, list, sizeof list).total == 0);
    CHECK(s.received() == VIP_SUCCESS);
    CHECK(s.memory.data()[1024] == 0x5A);
    CHECK(s.memory.data()[1024 + 4095] == 0x5A);
    CHECK(s.memory.is_whole(1024, 1024 + 4096));
}

TEST_CASE("pieces that do not add up to the message end the link, and nothing is fetched", "[peer]")
{
    const std::vector<unsigned char> text(8192, 0x11);
    for (const std::uint32_t claimed : {0u, 1u, 4095u, 4097u, 8192u}) {
        Scene s;
        s.memory.post_recv(s.vi, 1024, 4096);
        const auto list = pieces(text, claimed);
        CHECK(s.say(pull(4096), list.data(), 16).type == 0);
        CHECK(s.vi.state() == VIP_STATE_ERROR);
        CHECK(s.received() == VIP_DESCRIPTOR_ERROR); // flushed
        CHECK(s.memory.is_whole());
    }
}

TEST_CASE("only a sender at Reliable Reception hears that a fetched message had no receive", "[peer]")
{
    const std::vector<unsigned char> text(4096, 0x11);
    const auto list = pieces(text, text.size());
    for (const VIP_RELIABILITY_LEVEL level : kLevels) {
        Scene s(level);
        const lo_message answer = s.say(pull(4096), list.data(), 16);
        REQUIRE(answer.type == LO_ACK);
        CHECK(answer.total == (level == VIP_SERVICE_RELIABLE_RECEPTION ? VIP_STATUS_REMOTE_DESC_ERROR : 0));
    }
}

TEST_CASE("only a sender at Reliable Reception hears that a write's immediate data had no receive", "[peer]")
{
    for (const VIP_RELIABILITY_LEVEL level : kLevels) {
        Scene s(level);
        const Target target = {s.memory.address(), s.memory.handle, 0};
        const lo_message answer = s.say(
            message_of(LO_WRITE, LO_FLAG_LAST | LO_FLAG_ACK | LO_FLAG_IMMEDIATE, 0, kTicket), &target, 16);
        REQUIRE(answer.type == LO_ACK);
        CHECK(answer.total == (level == VIP_SERVICE_RELIABLE_RECEPTION ? VIP_STATUS_REMOTE_DESC_ERROR : 0));
    }
}

TEST_CASE("a read that is answered in chunks stops when its region ends", "[peer]")
{
    Scene s;
    const Target target = {s.memory.address(), s.memory.handle, 0};
    lo_message read = message_of(LO_READ, LO_FLAG_ACK, VictimMemory::kBytes, kTicket);
    read.session = s.vi.number;
    REQUIRE(s.peer.send(read, &target, 16));
    s.victim.progress(); // as much as fits into the ring
    s.memory.deregister();
    std::uint32_t before = 0, after = 0;
    bool refused = false;
    for (int i = 0; i < 10; ++i) {
        lo_message message{};
        const unsigned char *payload;
        while (vipl_lo_ring_peek(&s.peer.in, &message, &payload) == LO_PEEK_OK) {
            (i == 0 ? before : after) += message.type == LO_DATA ? message.bytes : 0;
            refused |= message.type == LO_ACK && message.total == VIP_STATUS_RDMA_PROT_ERROR;
            vipl_lo_ring_pop(&s.peer.in, &message);
        }
        vipl_lo_ring_release(&s.peer.in, true);
        s.victim.progress();
    }
    CHECK(before > 0);
    CHECK(before < VictimMemory::kBytes);
    CHECK(after == 0);
    CHECK(refused);
}

TEST_CASE("a chunk that reaches beyond its message ends the link, and is not placed", "[peer]")
{
    struct Chunk {
        std::uint32_t total, offset, bytes;
        bool last;
    };
    const Chunk chunks[] = {{16, 0, 64, true},   {16, 16, 64, true},       {64, 0, 16, true},
                            {16, 0, 16, false},  {16, 8, 16, true},        {16, 17, 0, true},
                            {16, ~0u, 17, true}, {16, ~0u - 15, 32, true}, {0, 0, 64, true},
                            {16, 32, 16, true},  {4096, 4096, 16, false},  {4096, 0xFFFFF000, 4096, true}};
    const std::vector<unsigned char> bytes(LO_RDMA_PREFIX + 8192, 0x11);
    for (const Chunk &chunk : chunks) {
        for (const std::uint8_t type : {LO_SEND, LO_WRITE, LO_DATA}) {
            Scene s;
            s.memory.post_recv(s.vi, 1024, 4096);
            lo_message message = message_of(type, chunk.last ? LO_FLAG_LAST : 0, chunk.total, kTicket);
            message.offset = chunk.offset;
            std::vector<unsigned char> payload(bytes.begin(), bytes.begin() + chunk.bytes);
            if (type == LO_WRITE) {
                const Target target = {s.memory.address() + 1024, s.memory.handle, 0};
                const auto *prefix = reinterpret_cast<const unsigned char *>(&target);
                payload.insert(payload.begin(), prefix, prefix + LO_RDMA_PREFIX);
            }
            s.say(message, payload.data(), static_cast<std::uint32_t>(payload.size()));
            CHECK(s.vi.state() == VIP_STATE_ERROR);
            CHECK(s.memory.is_whole());
        }
    }
}

TEST_CASE("a disconnect that finds the ring full is said when there is room", "[peer]")
{
    Scene s;
    VictimVi other(s.victim, s.peer, VIP_SERVICE_RELIABLE_DELIVERY);
    const Target target = {s.memory.address(), s.memory.handle, 0};
    while (vipl_lo_ring_claim(&s.peer.link->out, 0, true) != nullptr) { // each question is answered
        lo_message read = message_of(LO_READ, LO_FLAG_ACK, 0, kTicket);
        read.session = s.vi.number;
        REQUIRE(s.peer.send(read, &target, 16));
        s.victim.progress();
    }
    REQUIRE(VipDisconnect(s.vi.handle) == VIP_SUCCESS);
    lo_message message{};
    CHECK(s.peer.in.shared->wanting == 1); // a sleeper is woken when there is room
    CHECK_FALSE(s.peer.receive(LO_CLOSE, message));
    s.victim.progress();
    REQUIRE(s.peer.receive(LO_CLOSE, message));
    CHECK(message.session == VictimVi::kPeerNumber);
    CHECK(other.state() == VIP_STATE_CONNECTED);
}

TEST_CASE("a program that waits for room for a message of many pieces sleeps until there is enough", "[peer]")
{
    constexpr unsigned kPieces = 252, kBytes = 32, kMessages = 8; // of which the ring takes seven
    struct alignas(64) Large {
        VIP_DESCRIPTOR descriptor{};
        VIP_DESCRIPTOR_SEGMENT more[kPieces]{};
    };
    Scene s;
    std::vector<Large> large(kMessages);
    VIP_MEM_ATTRIBUTES attributes{};
    VIP_MEM_HANDLE handle = 0;
    const auto bytes = static_cast<VIP_ULONG>(large.size() * sizeof(Large));
    REQUIRE(VipRegisterMem(s.victim.handle, large.data(), bytes, &attributes, &handle) == VIP_SUCCESS);
    s.peer.link->peer_direct_access = 1;
    for (Large &each : large) {
        VIP_DESCRIPTOR *descriptor = &each.descriptor;
        descriptor->CS.SegCount = kPieces;
        descriptor->CS.Length = kPieces * kBytes;
        for (unsigned i = 0; i < kPieces; ++i) {
            VIP_DATA_SEGMENT &piece = descriptor->DS[i].Local;
            piece.Data.Address = s.memory.data();
            piece.Handle = s.memory.handle;
            piece.Length = kBytes;
        }
        REQUIRE(VipPostSend(s.vi.handle, descriptor, handle) == VIP_SUCCESS);
    }
    vipl_poll_hint hint{};
    vipl_lo_remote_prepare_wait(s.victim.be, &hint);
    vipl_lo_remote_finish_wait(s.victim.be, &hint);
    CHECK(hint.ms == -1);
    CHECK(s.peer.in.shared->wanting == 1);
    lo_message message{};
    for (unsigned i = 0; i < kMessages; ++i) {
        CHECK(s.peer.receive(LO_RENDEZVOUS, message));
        s.victim.progress();
    }
    REQUIRE(VipDisconnect(s.vi.handle) == VIP_SUCCESS);
    CHECK(VipDeregisterMem(s.victim.handle, large.data(), handle) == VIP_SUCCESS);
}

TEST_CASE("who asks for room that the peer has made meanwhile wakes a sleeper, for the peer does not",
          "[peer]")
{
    Scene s;
    auto *nic = s.victim.be->core;
    vipl_waiter sleeper{};
    sleeper.waker = vipl_thread_waker();
    REQUIRE(sleeper.waker != nullptr);
    vipl_list_init(&sleeper.link);
    vipl_list_init(&sleeper.nic_link);
    nic->sleepers.leader = &sleeper;
    const auto is_woken_by_asking = [&] {
        vipl_waker_reset(sleeper.waker);
        vipl_biased_lock(&s.peer.link->tx);
        vipl_lo_link_want_room(s.peer.link);
        vipl_biased_unlock(&s.peer.link->tx);
        CHECK(s.peer.in.shared->wanting == 1);
        return vipl_poll(&sleeper.waker->fd, 1, 0, nullptr) == 0;
    };
    CHECK(is_woken_by_asking());
    while (vipl_lo_ring_claim(&s.peer.link->out, 4096, false) != nullptr) {
        s.memory.post_send(s.vi, 0, 4096);
    }
    CHECK_FALSE(is_woken_by_asking());
    vipl_waker_reset(sleeper.waker);
    nic->sleepers.leader = nullptr;
}

TEST_CASE("a short message waits behind one that is sent again, although the ring has room", "[peer]")
{
    constexpr std::uint32_t kLong = 60000, kShort = 64; // the ring takes about half of the long one
    Scene s;
    s.peer.link->peer_direct_access = 1;
    REQUIRE(s.memory.post_send(s.vi, 0, kLong) == VIP_SUCCESS);
    lo_message message{};
    REQUIRE(s.peer.receive(LO_RENDEZVOUS, message));
    lo_message again = message_of(LO_ACK, LO_FLAG_AGAIN, VIP_STATUS_TRANSPORT_ERROR, message.slot);
    REQUIRE(s.peer.send(again));
    s.victim.progress();
    std::uint32_t come = 0;
    bool is_short_sent = false;
    for (unsigned turn = 0; turn < 8 && come < kLong; ++turn) {
        while (come < kLong && s.peer.receive(LO_SEND, message)) {
            REQUIRE(message.total == kLong); // the short one has not overtaken the rest
            CHECK(message.offset == come);
            come += message.bytes;
        }
        if (!is_short_sent) {
            REQUIRE(come > 0);
            REQUIRE(come < kLong);
            REQUIRE(s.memory.post_send(s.vi, 0, kShort) == VIP_SUCCESS);
            is_short_sent = true;
        }
        s.victim.progress();
    }
    CHECK(come == kLong);
    REQUIRE(s.peer.receive(LO_SEND, message));
    CHECK(message.total == kShort);
}

TEST_CASE("a write that fails before its first chunk leaves the write before it its request slot", "[peer]")
{
    if (!may_fetch()) {
        WARN("this system does not let a process copy from itself: emulators do not");
        return;
    }
    constexpr std::uint32_t kBytes = 4096;
    Scene s(VIP_SERVICE_UNRELIABLE);
    void *lost = vipl_test::map_pages(kBytes);
    VIP_MEM_ATTRIBUTES attributes{};
    VIP_MEM_HANDLE handle = 0;
    REQUIRE(VipRegisterMem(s.victim.handle, lost, kBytes, &attributes, &handle) == VIP_SUCCESS);
    const auto write = [&](bool is_lost) {
        return s.memory.post_write(s.vi, 64, is_lost ? lost : nullptr, handle);
    };
    vipl_store_relaxed(&vipl_iov_safe, 1);
    REQUIRE(write(false) == VIP_SUCCESS);
    lo_message message{};
    REQUIRE(s.peer.receive(LO_WRITE, message));
    vipl_test::allow(lost, kBytes, vipl_test::PageAccess::none);
    REQUIRE(write(true) == VIP_SUCCESS);
    vipl_store_relaxed(&vipl_iov_safe, 0);
    REQUIRE(s.peer.send(message_of(LO_ACK, 0, 0, message.slot)));
    s.victim.progress();
    VIP_DESCRIPTOR *done = nullptr;
    CHECK(VipSendDone(s.vi.handle, &done) == VIP_SUCCESS);
    CHECK(VipSendDone(s.vi.handle, &done) == VIP_DESCRIPTOR_ERROR);
    CHECK(VipDeregisterMem(s.victim.handle, lost, handle) == VIP_SUCCESS);
    vipl_test::unmap_pages(lost, kBytes);
}

TEST_CASE("only a link that the peer has taken up, and whose end has not come, takes further requests",
          "[peer]")
{
    const Victim victim;
    RawPeer peer(victim);
    CHECK_FALSE(vipl_lo_link_is_confirmed(peer.link));
    const VictimVi vi(victim, peer, VIP_SERVICE_RELIABLE_DELIVERY);
    CHECK(vipl_lo_link_is_confirmed(peer.link));
    peer.link->hung_up = true;
    CHECK_FALSE(vipl_lo_link_is_confirmed(peer.link));
    peer.link->hung_up = false;
    vipl_store_relaxed(&peer.link->dead, 1);
    CHECK_FALSE(vipl_lo_link_is_confirmed(peer.link));
    vipl_store_relaxed(&peer.link->dead, 0);
}

TEST_CASE("a requester that takes up an acceptance too late is told that its connection is over", "[peer]")
{
    Scene s;
    VictimVi other(s.victim, s.peer, VIP_SERVICE_RELIABLE_DELIVERY);
    lo_message open = message_of(LO_OPEN, 0, VictimVi::kPeerNumber);
    open.session = s.vi.number;
    REQUIRE(VipDisconnect(s.vi.handle) == VIP_SUCCESS);
    lo_message message{};
    REQUIRE(s.peer.receive(LO_CLOSE, message)); // of the disconnect
    REQUIRE(s.peer.send(open));
    s.victim.progress();
    REQUIRE(s.peer.receive(LO_CLOSE, message));
    CHECK(message.session == VictimVi::kPeerNumber);
    CHECK(other.state() == VIP_STATE_CONNECTED);
}

TEST_CASE("no session of a link has number 0, however many there have been", "[peer]")
{
    Scene s;
    const std::uint32_t slot = s.vi.number >> LO_GENERATION_BITS;
    for (unsigned i = 0; i < (1u << LO_GENERATION_BITS) + 2; ++i) {
        s.peer.link->sessions_opened++;
    }
    for (unsigned i = 0; i < 3; ++i) {
        s.peer.link->sessions_opened = (1u << LO_GENERATION_BITS) - 2 + i;
        VictimVi next(s.victim, s.peer, VIP_SERVICE_RELIABLE_DELIVERY);
        CHECK(next.number % (1u << LO_GENERATION_BITS) != 0);
        CHECK(next.number >> LO_GENERATION_BITS != slot);
    }
}
