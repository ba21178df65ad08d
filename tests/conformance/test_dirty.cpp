// SPDX-License-Identifier: MIT
//
// Programs of the time do not clear descriptors: they set the fields they know of. On a 32-bit CPU
// that leaves the upper half of each address as it was.
#include <cstring>

#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

/** A descriptor in memory that is full of other things. */
Work dirty(Memory &memory, VIP_UINT16 control, VIP_UINT16 segments)
{
    const Work work = memory.work(segments);
    std::memset(static_cast<void *>(work.desc), 0xA5, sizeof(VIP_CONTROL_SEGMENT) + segments * 16);
    work.desc->CS.Control = control;
    work.desc->CS.SegCount = segments;
    work.desc->CS.Reserved = 0;
    return work;
}

/** As programs assign addresses: a pointer. */
void set_local(VIP_DATA_SEGMENT &segment, const Span &bytes)
{
    segment.Data.Address = bytes.data;
    segment.Handle = bytes.handle;
    segment.Length = bytes.size;
}

Work dirty_transfer(Memory &memory, const Span &bytes)
{
    Work work = dirty(memory, VIP_CONTROL_OP_SENDRECV, 1);
    set_local(work.segment(0), bytes);
    return work;
}

Work dirty_rdma(Memory &memory, VIP_UINT16 op, const RemoteSpan &far, const Span &bytes)
{
    Work work = dirty(memory, op, 2);
    VIP_ADDRESS_SEGMENT &remote = work.desc->DS[0].Remote;
    remote.Data.Address = reinterpret_cast<void *>(static_cast<std::uintptr_t>(far.address));
    remote.Handle = far.handle;
    remote.Reserved = 0;
    set_local(work.segment(1), bytes);
    return work;
}

void complete(Endpoint &end, const Work &work)
{
    post_send(end.vi, work);
    EXPECT(sent(end.vi) == work.desc);
}

} // namespace

TWO_ROLE_CASE_EACH_LEVEL("descriptors that were never cleared send and receive", "[VipPostSend][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Span landing = end.memory.bytes(300);
        const Work in = dirty_transfer(end.memory, landing);
        post_recv(end.vi, in);
        end.connect();
        peer.sync();
        EXPECT(received(end.vi) == in.desc);
        EXPECT(landing.holds(1));
        EXPECT_EQ(0xA5A5A5A5u, in.desc->CS.ImmediateData);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        const Span bytes = end.memory.bytes(300);
        bytes.fill(1);
        complete(end, dirty_transfer(end.memory, bytes));
        peer.sync();
    },
};

TWO_ROLE_CASE("descriptors that were never cleared write and read remote memory",
              "[VipPostSend][functional]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Span target = end.memory.bytes(3000);
        end.connect();
        peer.send(target.remote());
        peer.sync();
        EXPECT(target.holds(2));
        peer.sync();
    },
    [](Peer &peer) {
        if ((peer.nic().attributes().RDMAReadSupport & peer.level()) == 0) {
            throw NotApplicable("the device has no RDMA Read at this level");
        }
        Endpoint end(peer);
        end.connect();
        const RemoteSpan target = peer.receive<RemoteSpan>();
        const Span out = end.memory.bytes(3000), in = end.memory.bytes(3000);
        out.fill(2);
        complete(end, dirty_rdma(end.memory, VIP_CONTROL_OP_RDMAWRITE, target, out));
        complete(end, dirty_rdma(end.memory, VIP_CONTROL_OP_RDMAREAD, target, in));
        EXPECT(in.holds(2));
        peer.sync();
        peer.sync();
    },
};
