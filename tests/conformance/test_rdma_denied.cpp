// SPDX-License-Identifier: MIT
//
// RDMA that the remote side must refuse, and RDMA that is wrong on the local side. Each reason is
// tried as a write and as a read, at every reliability level: not one byte moves, the initiator
// gets RDMA_PROT_ERROR, the remote error callback its code, and a reliable connection breaks.
#include <algorithm>

#include "support/error_log.hpp"
#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

/** Why the target refuses: which right, tag or range is wrong. */
struct Target {
    VIP_BOOLEAN vi_allows = VIP_TRUE;
    VIP_BOOLEAN region_allows = VIP_TRUE;
    bool other_tag = false, stale = false, unknown = false, other_nic = false;
    long shift = 0; // of the address the initiator is given, against the region's first byte
};

constexpr VIP_UINT32 kRegion = 256;
constexpr VIP_UINT32 kBytes = 64;

template <VIP_UINT16 op>
constexpr bool kIsRead = op == VIP_CONTROL_OP_RDMAREAD;

template <VIP_UINT16 op>
void need(Peer &peer)
{
    if (kIsRead<op> && (peer.nic().attributes().RDMAReadSupport & peer.level()) == 0) {
        throw NotApplicable("the device has no RDMA Read at this level");
    }
}

/** The server has the target, offers it, and sees that nothing happens to it. */
template <Target (*describe)(), VIP_UINT16 op>
void refuse(Peer &peer)
{
    need<op>(peer);
    const Target how = describe();
    const Nic other_nic;
    ErrorLog errors(peer.nic());
    const Ptag tag(peer.nic()), other_tag(peer.nic());
    VIP_VI_ATTRIBUTES attributes = vi_attributes(peer.level());
    attributes.Ptag = tag;
    (kIsRead<op> ? attributes.EnableRdmaRead : attributes.EnableRdmaWrite) = how.vi_allows;
    VIP_MEM_ATTRIBUTES rights = how.other_nic ? rdma_memory() : rdma_memory(how.other_tag ? other_tag : tag);
    (kIsRead<op> ? rights.EnableRdmaRead : rights.EnableRdmaWrite) = how.region_allows;
    Memory target(how.other_nic ? other_nic : peer.nic(), kRegion, rights);
    const Span bytes = target.bytes(kRegion);
    bytes.fill(5);
    Endpoint end(peer, attributes);
    end.connect();
    if (how.stale) {
        target.deregister();
    }
    RemoteSpan offer = bytes.remote() + static_cast<VIP_UINT64>(how.shift);
    offer.handle ^= how.unknown ? 0x00100000 : 0;
    peer.send(offer);
    if (peer.reliable()) {
        errors.expect(end.vi, kIsRead<op> ? VIP_ERROR_RDMAR_PROT : VIP_ERROR_RDMAW_PROT);
        EXPECT_EQ(VIP_STATE_ERROR, end.vi.state());
        errors.expect_none(end.vi);
    }
    peer.sync();
    EXPECT(bytes.holds(5));
    if (!peer.reliable()) {
        EXPECT_EQ(VIP_STATE_CONNECTED, end.vi.state());
    }
    peer.sync();
}

/** The client tries, and a fenced send behind it shows whether the connection lives. */
template <VIP_UINT16 op>
void attempt(Peer &peer)
{
    need<op>(peer);
    ErrorLog errors(peer.nic());
    Endpoint end(peer);
    end.connect();
    const Span bytes = end.memory.bytes(kBytes);
    bytes.fill(9);
    const Work work = end.memory.rdma(op, peer.receive<RemoteSpan>(), bytes);
    post_send(end.vi, work);
    VIP_DESCRIPTOR *done = nullptr;
    const VIP_RETURN rc = VipSendWait(end.vi, patience(), &done);
    EXPECT(done == work.desc);
    EXPECT(bytes.holds(9));
    if (peer.reliable() || kIsRead<op>) {
        EXPECT_EQ(VIP_DESCRIPTOR_ERROR, rc);
        EXPECT_STATUS((kIsRead<op> ? VIP_STATUS_OP_RDMA_READ : VIP_STATUS_OP_RDMA_WRITE) |
                          VIP_STATUS_RDMA_PROT_ERROR,
                      work.desc);
    } else { // an Unreliable write may have left before it was refused
        EXPECT(rc == VIP_SUCCESS || rc == VIP_DESCRIPTOR_ERROR);
    }
    if (peer.reliable()) {
        end.vi.await(VIP_STATE_ERROR);
        errors.expect(end.vi, VIP_ERROR_CONN_LOST);
    } else {
        EXPECT_EQ(VIP_STATE_CONNECTED, end.vi.state());
    }
    peer.sync();
    peer.sync();
}

constexpr VIP_UINT32 kLarge = 4 * 1024 * 1024;

/** The peer's answer comes while the initiator is still busy with the message. */
void attempt_large(Peer &peer)
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes(peer.level());
    attributes.MaxTransferSize = std::min<VIP_ULONG>(peer.nic().attributes().MaxTransferSize, kLarge);
    Endpoint end(peer, attributes, attributes.MaxTransferSize + 65536);
    const Work work =
        end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, {4096, 77}, end.memory.bytes(attributes.MaxTransferSize));
    end.connect();
    post_send(end.vi, work);
    VIP_DESCRIPTOR *done = nullptr;
    EXPECT_EQ(VIP_DESCRIPTOR_ERROR, VipSendWait(end.vi, patience(), &done));
    EXPECT_STATUS(VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_RDMA_PROT_ERROR, work.desc);
    end.vi.await(VIP_STATE_ERROR);
    peer.sync();
}

void refuse_large(Peer &peer)
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes(peer.level());
    attributes.MaxTransferSize = std::min<VIP_ULONG>(peer.nic().attributes().MaxTransferSize, kLarge);
    Endpoint end(peer, attributes);
    end.connect();
    end.vi.await(VIP_STATE_ERROR);
    peer.sync();
}

Target vi_refuses()
{
    return {VIP_FALSE, VIP_TRUE, false, false, false, false, 0};
}
Target region_refuses()
{
    return {VIP_TRUE, VIP_FALSE, false, false, false, false, 0};
}
Target of_other_tag()
{
    return {VIP_TRUE, VIP_TRUE, true, false, false, false, 0};
}
Target of_stale_handle()
{
    return {VIP_TRUE, VIP_TRUE, false, true, false, false, 0};
}
Target of_unknown_handle()
{
    return {VIP_TRUE, VIP_TRUE, false, false, true, false, 0};
}
Target of_other_nic()
{
    return {VIP_TRUE, VIP_TRUE, false, false, false, true, 0};
}
Target from_before()
{
    return {VIP_TRUE, VIP_TRUE, false, false, false, false, -1};
}
Target to_beyond()
{
    return {VIP_TRUE, VIP_TRUE, false, false, false, false, kRegion - kBytes + 1};
}
Target wholly_beyond()
{
    return {VIP_TRUE, VIP_TRUE, false, false, false, false, 1 << 20};
}
Target wrapping()
{
    return {VIP_TRUE, VIP_TRUE, false, false, false, false, 0x7FFFFFFF};
}

} // namespace

TWO_ROLE_CASE_RELIABLE("RDMA Write of many bytes to memory that is not the peer's is RDMA_PROT_ERROR",
                       "[VipPostSend][full]") = {refuse_large, attempt_large};

#define DENIED_CASE(what, describe) \
    TWO_ROLE_CASE_EACH_LEVEL("RDMA Write " what " is RDMA_PROT_ERROR and moves nothing", \
                             "[VipPostSend][full]") = {refuse<describe, VIP_CONTROL_OP_RDMAWRITE>, \
                                                       attempt<VIP_CONTROL_OP_RDMAWRITE>}; \
    TWO_ROLE_CASE_EACH_LEVEL("RDMA Read " what " is RDMA_PROT_ERROR and moves nothing", \
                             "[VipPostSend][full]") = {refuse<describe, VIP_CONTROL_OP_RDMAREAD>, \
                                                       attempt<VIP_CONTROL_OP_RDMAREAD>};

DENIED_CASE("through a VI that does not enable it", vi_refuses)
DENIED_CASE("of a region that does not enable it", region_refuses)
DENIED_CASE("of a region of another tag", of_other_tag)
DENIED_CASE("of a deregistered region", of_stale_handle)
DENIED_CASE("of a handle that was never handed out", of_unknown_handle)
DENIED_CASE("of another NIC handle's region", of_other_nic)
DENIED_CASE("from a byte before the region", from_before)
DENIED_CASE("to a byte beyond the region", to_beyond)
DENIED_CASE("wholly beyond the region", wholly_beyond)
DENIED_CASE("of an address far away", wrapping)

namespace {

/** Local faults of RDMA: the remote side only connects and offers a good target. */
template <VIP_UINT16 op>
void good_target(Peer &peer)
{
    need<op>(peer);
    Endpoint end(peer);
    const Span target = end.memory.bytes(kRegion);
    target.fill(5);
    end.connect();
    peer.send(target.remote());
    peer.sync();
    EXPECT(target.holds(5));
    peer.sync();
}

using LocalFault = Work (*)(Endpoint &, RemoteSpan, VIP_UINT16 op);

template <LocalFault fault, VIP_UINT16 op, VIP_UINT32 bits>
void faulty_initiator(Peer &peer)
{
    need<op>(peer);
    Endpoint end(peer);
    end.connect();
    const Work work = fault(end, peer.receive<RemoteSpan>(), op);
    post_send(end.vi, work);
    EXPECT(send_failed(end.vi) == work.desc);
    EXPECT_EQ(bits, work.status() & VIP_STATUS_ERROR_MASK);
    if (peer.reliable()) {
        end.vi.await(VIP_STATE_ERROR);
    } else {
        EXPECT_EQ(VIP_STATE_CONNECTED, end.vi.state());
    }
    peer.sync();
    peer.sync();
}

Work bad_local_segment(Endpoint &end, RemoteSpan remote, VIP_UINT16 op)
{
    Span bytes = end.memory.bytes(kBytes);
    bytes.data = end.memory.data() + end.memory.size() - kBytes + 1;
    return end.memory.rdma(op, remote, bytes);
}

Work no_address_segment(Endpoint &end, RemoteSpan, VIP_UINT16 op)
{
    return end.memory.work().op(op);
}

} // namespace

TWO_ROLE_CASE_EACH_LEVEL("RDMA Write from beyond a local region is PROTECTION_ERROR",
                         "[VipPostSend][full]") = {
    good_target<VIP_CONTROL_OP_RDMAWRITE>,
    faulty_initiator<bad_local_segment, VIP_CONTROL_OP_RDMAWRITE, VIP_STATUS_PROTECTION_ERROR>};

TWO_ROLE_CASE_EACH_LEVEL("RDMA Read to beyond a local region is PROTECTION_ERROR", "[VipPostSend][full]") = {
    good_target<VIP_CONTROL_OP_RDMAREAD>,
    faulty_initiator<bad_local_segment, VIP_CONTROL_OP_RDMAREAD, VIP_STATUS_PROTECTION_ERROR>};

TWO_ROLE_CASE_EACH_LEVEL("RDMA Write without an address segment is FORMAT_ERROR", "[VipPostSend][full]") = {
    good_target<VIP_CONTROL_OP_RDMAWRITE>,
    faulty_initiator<no_address_segment, VIP_CONTROL_OP_RDMAWRITE, VIP_STATUS_FORMAT_ERROR>};

TWO_ROLE_CASE_EACH_LEVEL("RDMA Read without an address segment is FORMAT_ERROR", "[VipPostSend][full]") = {
    good_target<VIP_CONTROL_OP_RDMAREAD>,
    faulty_initiator<no_address_segment, VIP_CONTROL_OP_RDMAREAD, VIP_STATUS_FORMAT_ERROR>};

TWO_ROLE_CASE_RELIABLE("RDMA Write with immediate data and no receive is VIP_ERROR_RECVQ_EMPTY",
                       "[VipErrorCallback][full]") = {
    [](Peer &peer) {
        ErrorLog errors(peer.nic());
        Endpoint end(peer);
        const Span target = end.memory.bytes(kBytes);
        end.connect();
        peer.send(target.remote());
        errors.expect(end.vi, VIP_ERROR_RECVQ_EMPTY);
        EXPECT_EQ(VIP_STATE_ERROR, end.vi.state());
        peer.sync();
    },
    [](Peer &peer) {
        ErrorLog errors(peer.nic());
        Endpoint end(peer);
        end.connect();
        Work work =
            end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, peer.receive<RemoteSpan>(), end.memory.bytes(kBytes));
        post_send(end.vi, work.immediate(1));
        if (peer.level() == VIP_SERVICE_RELIABLE_RECEPTION) {
            EXPECT(send_failed(end.vi) == work.desc);
            EXPECT_STATUS(VIP_STATUS_OP_RDMA_WRITE | VIP_STATUS_REMOTE_DESC_ERROR, work.desc);
        }
        errors.expect(end.vi, VIP_ERROR_CONN_LOST);
        end.vi.await(VIP_STATE_ERROR);
        peer.sync();
    },
};
