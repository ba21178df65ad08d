// SPDX-License-Identifier: MIT
//
// What is checked of a receive: the bytes that a message fills, and the descriptor's total length.
// Receives may reach beyond their region, as those of old programs do, where the message does not.
#include <vector>

#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

/** Memory of which only the first bytes are registered. */
class Margin {
public:
    Margin(const Nic &nic, VIP_UINT32 registered, VIP_UINT32 beyond)
        : nic_(nic), bytes_(size_t{registered} + beyond), registered_(registered)
    {
        VIP_MEM_ATTRIBUTES attributes = {};
        REQUIRE_VIP(VipRegisterMem(nic, bytes_.data(), registered, &attributes, &handle_));
    }
    ~Margin() { VipDeregisterMem(nic_, bytes_.data(), handle_); }
    Margin(const Margin &) = delete;
    Margin &operator=(const Margin &) = delete;

    /** All of it, from `offset` on. */
    Span from(VIP_UINT32 offset)
    {
        return {bytes_.data() + offset, static_cast<VIP_UINT32>(bytes_.size()) - offset, handle_};
    }
    bool margin_is_untouched() { return from(registered_).all(0); }

private:
    VIP_NIC_HANDLE nic_;
    std::vector<VIP_UINT8> bytes_;
    VIP_UINT32 registered_;
    VIP_MEM_HANDLE handle_ = 0;
};

constexpr VIP_ULONG kMiB = 1024 * 1024;
/** The size of the messages in each case: one FPDU or chunk, and many. */
constexpr VIP_UINT32 kShort = 100, kLong = 300000;

VIP_VI_ATTRIBUTES large(Peer &peer)
{
    return vi_attributes(peer.level(), kMiB);
}

/** Sends one message of that many bytes; whatever becomes of it, both ends still talk. */
template <VIP_UINT32 size, bool fits>
void one_message(Peer &peer)
{
    Endpoint end(peer, large(peer), 2 * kMiB);
    end.connect();
    peer.sync();
    const Span bytes = end.memory.bytes(size);
    bytes.fill(7);
    const Work out = end.send(bytes);
    if (fits || !peer.reliable()) {
        EXPECT(sent(end.vi) == out.desc);
    } else {
        end.vi.await(VIP_STATE_ERROR);
        if (peer.level() == VIP_SERVICE_RELIABLE_RECEPTION) {
            EXPECT(send_failed(end.vi) == out.desc);
            EXPECT((out.status() & VIP_STATUS_REMOTE_DESC_ERROR) != 0);
        }
    }
    peer.sync();
}

/** Receives it, with what a function posts. */
void takes(Peer &peer, Endpoint &end, const Work &in, VIP_UINT32 size)
{
    post_recv(end.vi, in);
    peer.sync();
    EXPECT(received(end.vi) == in.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, in.desc);
    EXPECT_EQ(size, in.desc->CS.Length);
    peer.sync();
}

void refuses(Peer &peer, Endpoint &end, const Work &in, VIP_UINT32 bits)
{
    post_recv(end.vi, in);
    peer.sync();
    EXPECT(receive_failed(end.vi) == in.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | bits, in.desc);
    EXPECT_EQ(0u, in.desc->CS.Length);
    end.vi.await(peer.reliable() ? VIP_STATE_ERROR : VIP_STATE_CONNECTED);
    peer.sync();
}

/** A receive that reaches beyond its region, which ends with the message's last byte. */
template <VIP_UINT32 size>
void reaches_beyond(Peer &peer)
{
    Margin margin(peer.nic(), size, 5000);
    Endpoint end(peer, large(peer), kMiB);
    end.connect();
    takes(peer, end, end.memory.transfer(margin.from(0)), size);
    EXPECT(margin.from(0).part(0, size).holds(7));
    EXPECT(margin.margin_is_untouched());
}

/** The same, and the region is one byte too short. */
template <VIP_UINT32 size>
void one_byte_short(Peer &peer)
{
    Margin margin(peer.nic(), size - 1, 5000);
    Endpoint end(peer, large(peer), kMiB);
    end.connect();
    refuses(peer, end, end.memory.transfer(margin.from(0)), VIP_STATUS_PROTECTION_ERROR);
    EXPECT(margin.margin_is_untouched());
}

/** Ten bytes, by a handle that is not known. */
Span unknown_to_device(Endpoint &end)
{
    Span bytes = end.memory.bytes(10);
    bytes.handle ^= 0x00100000;
    return bytes;
}

/** Two segments that the message fills, a third of an unknown handle that it does not reach. */
template <VIP_UINT32 size>
void bad_segment_behind(Peer &peer)
{
    Endpoint end(peer, large(peer), kMiB);
    end.connect();
    const Span bytes = end.memory.bytes(size);
    const Span bad = unknown_to_device(end);
    Work in = end.memory.work(4);
    in.local(bytes.part(0, size / 3)).local(bytes.part(size / 3, size - size / 3)).local(bad);
    takes(peer, end, in, size);
    EXPECT(bytes.holds(7));
    EXPECT(bad.all(0));
}

/** A third of an unknown handle that the message reaches with its last byte. */
template <VIP_UINT32 size>
void bad_segment_reached(Peer &peer)
{
    Endpoint end(peer, large(peer), kMiB);
    end.connect();
    const Span bytes = end.memory.bytes(size);
    const Span bad = unknown_to_device(end);
    Work in = end.memory.work(4);
    in.local(bytes.part(0, 40)).local(bytes.part(40, size - 41)).local(bad);
    refuses(peer, end, in, VIP_STATUS_PROTECTION_ERROR);
    EXPECT(bad.all(0));
}

/** Two segments that are registered, and too short together. */
template <VIP_UINT32 size>
void too_short(Peer &peer)
{
    Endpoint end(peer, large(peer), kMiB);
    end.connect();
    const Span bytes = end.memory.bytes(size);
    Work in = end.memory.work(4);
    in.local(bytes.part(0, 40)).local(bytes.part(40, size - 41));
    refuses(peer, end, in, VIP_STATUS_LENGTH_ERROR);
    EXPECT(bytes.part(size - 1, 1).all(0));
}

/** More bytes than a message may have, in so many pieces of which the last one alone is too long as
 * well. */
template <VIP_UINT32 size, unsigned pieces>
void longer_than_any_message(Peer &peer)
{
    Endpoint end(peer, large(peer), 3 * kMiB);
    end.connect();
    const Span bytes = end.memory.bytes(2 * kMiB);
    Work in = end.memory.work(4);
    for (VIP_UINT32 i = 0; i + 1 < pieces; ++i) {
        in.local(bytes.part(1000 * i, 1000));
    }
    in.local(bytes.part(1000 * (pieces - 1), 2 * kMiB - 1000 * (pieces - 1)));
    takes(peer, end, in, size);
    EXPECT(bytes.part(0, size).holds(7));
    EXPECT(bytes.part(size, 1).all(0));
}

/** And so many that 32 bits do not count them, most of them in no memory at all. */
void longer_than_counts(Peer &peer)
{
    Endpoint end(peer, large(peer), kMiB);
    end.connect();
    const Span bytes = end.memory.bytes(kShort);
    Work in = end.memory.work(4);
    in.local(bytes)
        .local({bytes.data, 0xFFFFFFFF, bytes.handle})
        .local({bytes.data, 0xFFFFFFFF, bytes.handle});
    takes(peer, end, in, kShort);
    EXPECT(bytes.holds(7));
}

/** As many bytes as a message may have. */
void as_long_as_any_message(Peer &peer)
{
    Endpoint end(peer, large(peer), 2 * kMiB);
    end.connect();
    takes(peer, end, end.memory.transfer(end.memory.bytes(kMiB)), kShort);
}

} // namespace

#define PLACED_CASE(what, receiver, fits) \
    TWO_ROLE_CASE_EACH_LEVEL("a short message and " what, "[VipPostRecv][full][private]") = { \
        receiver<kShort>, one_message<kShort, fits>}; \
    TWO_ROLE_CASE_EACH_LEVEL("a long message and " what, \
                             "[VipPostRecv][full][private]") = {receiver<kLong>, one_message<kLong, fits>}

PLACED_CASE("a receive that reaches beyond its region further than the message: success", reaches_beyond,
            true);
PLACED_CASE("a segment of a bad handle behind it: success", bad_segment_behind, true);
PLACED_CASE("a receive that leaves its region at the message's last byte: PROTECTION_ERROR", one_byte_short,
            false);
PLACED_CASE("a segment of a bad handle that it reaches: PROTECTION_ERROR", bad_segment_reached, false);
PLACED_CASE("a receive that is one byte shorter: LENGTH_ERROR", too_short, false);

#define LONGER_CASE(what, size, pieces) \
    TWO_ROLE_CASE_EACH_LEVEL(what " fits into a receive longer than the VI's MaxTransferSize", \
                             "[VipPostRecv][full]") = {longer_than_any_message<size, pieces>, \
                                                       one_message<size, true>}

LONGER_CASE("a short message", kShort, 1);
LONGER_CASE("a short message in pieces", kShort, 3);
LONGER_CASE("a long message in pieces", kLong, 3);
LONGER_CASE("the longest message", kMiB, 1);
TWO_ROLE_CASE_EACH_LEVEL("a short message fits into a receive of more than 4 GiB",
                         "[VipPostRecv][full]") = {longer_than_counts, one_message<kShort, true>};
TWO_ROLE_CASE_EACH_LEVEL("a receive of the VI's MaxTransferSize is none too long",
                         "[VipPostRecv][full]") = {as_long_as_any_message, one_message<kShort, true>};
