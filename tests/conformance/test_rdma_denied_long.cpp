// SPDX-License-Identifier: MIT
//
// RDMA Writes of many sizes that fit their target's begin and not their target: a device may carry
// them in parts, but it refuses them as a whole. Not one byte moves, and nothing of them is
// delivered.
#include <algorithm>
#include <memory>

#include "support/error_log.hpp"
#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

constexpr VIP_UINT32 kPart = 65500; // tcp carries so much at a time between two of this library
constexpr VIP_UINT32 kSizes[] = {2, kPart + 1, 2 * kPart, 2 * kPart + 1, 524289, 1 << 20};
constexpr VIP_UINT8 kOurs = 5, kTheirs = 9;

VIP_UINT32 largest(Peer &peer)
{
    return static_cast<VIP_UINT32>(
        std::min<VIP_ULONG>(peer.nic().attributes().MaxTransferSize, kSizes[std::size(kSizes) - 1]));
}

/** How many of a write's bytes lie in the region; the program has memory behind it too. */
using Fitting = VIP_UINT32 (*)(VIP_UINT32 size);

VIP_UINT32 all_but_the_last_byte(VIP_UINT32 size)
{
    return size - 1;
}
VIP_UINT32 first_part(VIP_UINT32 size)
{
    return std::min(size - 1, kPart);
}
VIP_UINT32 half(VIP_UINT32 size)
{
    return size / 2;
}

/** Memory whose begin is registered, and whose rest is too, as `rest` says. */
class Halves {
public:
    Halves(const Nic &nic, VIP_UINT32 bytes, VIP_UINT32 fitting, VIP_MEM_ATTRIBUTES rest)
        : nic_(nic), bytes_(bytes, kOurs), fitting_(fitting)
    {
        VIP_MEM_ATTRIBUTES rights = rdma_memory();
        REQUIRE_VIP(VipRegisterMem(nic, bytes_.data(), fitting, &rights, &first_));
        REQUIRE_VIP(VipRegisterMem(nic, &bytes_[fitting], bytes - fitting, &rest, &second_));
    }
    ~Halves()
    {
        VipDeregisterMem(nic_, bytes_.data(), first_);
        VipDeregisterMem(nic_, &bytes_[fitting_], second_);
    }
    Halves(const Halves &) = delete;
    Halves &operator=(const Halves &) = delete;

    RemoteSpan remote() const { return {reinterpret_cast<std::uintptr_t>(bytes_.data()), first_}; }
    size_t changed() const
    {
        return bytes_.size() - static_cast<size_t>(std::count(bytes_.begin(), bytes_.end(), kOurs));
    }

private:
    VIP_NIC_HANDLE nic_;
    std::vector<VIP_UINT8> bytes_;
    VIP_UINT32 fitting_;
    VIP_MEM_HANDLE first_ = 0, second_ = 0;
};

VIP_VI_ATTRIBUTES wide(Peer &peer)
{
    return vi_attributes(peer.level(), largest(peer));
}

/** Each size has a connection of its own: the refusal ends it at the reliable levels. */
template <Fitting fitting>
void refuse(Peer &peer)
{
    for (const VIP_UINT32 size : kSizes) {
        if (size > largest(peer)) {
            continue;
        }
        ErrorLog errors(peer.nic());
        Halves target(peer.nic(), size, fitting(size), rdma_memory());
        Endpoint end(peer, wide(peer));
        const Work after = end.receive(8);
        end.connect();
        peer.send(target.remote());
        errors.expect(end.vi, VIP_ERROR_RDMAW_PROT);
        if (peer.reliable()) {
            end.vi.await(VIP_STATE_ERROR);
        } else { // and the connection lives
            EXPECT(received(end.vi) == after.desc);
            EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, after.desc);
        }
        EXPECT_EQ(size_t{0}, target.changed());
        if (size == kSizes[std::size(kSizes) - 1]) {
            errors.expect_none(end.vi); // it was reported once for all of it
        }
        peer.sync();
        EXPECT_EQ(size_t{0}, target.changed());
    }
}

void attempt(Peer &peer)
{
    for (const VIP_UINT32 size : kSizes) {
        if (size > largest(peer)) {
            continue;
        }
        Endpoint end(peer, wide(peer), size + 65536);
        const Span bytes = end.memory.bytes(size);
        bytes.fill(kTheirs);
        end.connect();
        const Work work = end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, peer.receive<RemoteSpan>(), bytes);
        post_send(end.vi, work);
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipSendWait(end.vi, patience(), &done);
        EXPECT(done == work.desc);
        if (peer.reliable()) {
            EXPECT_EQ(VIP_DESCRIPTOR_ERROR, rc);
            EXPECT_STATUS(VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR, work.desc);
            end.vi.await(VIP_STATE_ERROR);
        } else {
            EXPECT(rc == VIP_SUCCESS || rc == VIP_DESCRIPTOR_ERROR);
            const Work after = end.send("after");
            EXPECT(sent(end.vi) == after.desc);
        }
        peer.sync();
    }
}

} // namespace

#define LONG_CASE(what, fitting) \
    TWO_ROLE_CASE_EACH_LEVEL("RDMA Write of any size to " what " moves nothing", \
                             "[VipPostSend][full][private]") = {refuse<fitting>, attempt};

LONG_CASE("a region that is a byte too short", all_but_the_last_byte)
LONG_CASE("a region that ends behind its first part", first_part)
LONG_CASE("the first of two regions in a row", half)

namespace {

/** What the initiator does first is refused, immediate data and all; what it sends behind it is
 * not. */
void take_what_comes_behind(Peer &peer)
{
    for (const VIP_UINT32 size : {VIP_UINT32{64}, VIP_UINT32{200000}}) {
        ErrorLog errors(peer.nic());
        Halves target(peer.nic(), size, size - 1, rdma_memory());
        Endpoint end(peer, wide(peer));
        const Work first = end.receive(8), second = end.receive(8);
        end.connect();
        peer.send(target.remote());
        EXPECT(received(end.vi) == first.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, first.desc); // no immediate data
        EXPECT_EQ(VIP_UINT32{5}, first.desc->CS.Length);
        EXPECT(received(end.vi) == second.desc); // a right one has its own
        EXPECT_STATUS(VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE, second.desc);
        EXPECT_EQ(VIP_UINT32{8}, second.desc->CS.ImmediateData);
        errors.expect(end.vi, VIP_ERROR_RDMAW_PROT);
        errors.expect_none(end.vi);
        peer.sync();
    }
}

void write_wrong_and_go_on(Peer &peer)
{
    for (const VIP_UINT32 size : {VIP_UINT32{64}, VIP_UINT32{200000}}) {
        Endpoint end(peer, wide(peer), size + 65536);
        const Span bytes = end.memory.bytes(size);
        end.connect();
        const RemoteSpan remote = peer.receive<RemoteSpan>();
        VIP_DESCRIPTOR *done = nullptr;
        Work wrong = end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, remote, bytes);
        post_send(end.vi, wrong.immediate(7));
        const VIP_RETURN rc = VipSendWait(end.vi, patience(), &done);
        EXPECT(rc == VIP_SUCCESS || rc == VIP_DESCRIPTOR_ERROR);
        const Work behind = end.send("after");
        EXPECT(sent(end.vi) == behind.desc);
        Work right = end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, remote, bytes.part(0, size / 2));
        post_send(end.vi, right.immediate(8));
        EXPECT(sent(end.vi) == right.desc);
        peer.sync();
    }
}

} // namespace

TWO_ROLE_CASE_AT(VIP_SERVICE_UNRELIABLE,
                 "RDMA Write that is refused delivers no immediate data, and the next does",
                 "[VipPostSend][full][private]") = {take_what_comes_behind, write_wrong_and_go_on};
