// SPDX-License-Identifier: MIT
//
// Descriptors that fail: the status bit each fault earns, what it does to the connection at each
// reliability level, and what the other side sees. A fault is a function that makes a spoilt
// descriptor; it is tried as a send and as a receive. RDMA's faults are in test_rdma_denied.cpp.
#include <cstring>
#include <vector>

#include "support/error_log.hpp"
#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

/** One end whose VI has a tag, and memory of another tag beside it. */
struct TaggedEnd {
    explicit TaggedEnd(Peer &peer)
        : errors(peer.nic()), tag(peer.nic()), other_tag(peer.nic()), end(peer, with_tag(peer.level(), tag)),
          foreign(peer.nic(), 8192, rdma_memory(other_tag)), other_memory(other_nic, 8192)
    {
    }
    static VIP_VI_ATTRIBUTES with_tag(VIP_RELIABILITY_LEVEL level, VIP_PROTECTION_HANDLE tag)
    {
        VIP_VI_ATTRIBUTES attributes = vi_attributes(level, 4096);
        attributes.Ptag = tag;
        return attributes;
    }

    ErrorLog errors;
    Ptag tag, other_tag;
    Endpoint end;
    Memory foreign;
    Nic other_nic;
    Memory other_memory;
};

using Fault = Work (*)(TaggedEnd &);

// Protection: a data segment that is not wholly inside one region of the VI's tag.

Work with_segment(TaggedEnd &e, Span segment)
{
    return e.end.memory.transfer(segment);
}

Work unknown_handle(TaggedEnd &e)
{
    Span bytes = e.end.memory.bytes(10);
    bytes.handle ^= 0x00100000;
    return with_segment(e, bytes);
}

Work zero_handle(TaggedEnd &e)
{
    Span bytes = e.end.memory.bytes(10);
    bytes.handle = 0;
    return with_segment(e, bytes);
}

Work stale_handle(TaggedEnd &e)
{
    const Span bytes = e.foreign.bytes(10);
    e.foreign.deregister();
    return with_segment(e, bytes);
}

Work other_nics_handle(TaggedEnd &e)
{
    return with_segment(e, e.other_memory.bytes(10));
}

Work other_tag(TaggedEnd &e)
{
    return with_segment(e, e.foreign.bytes(10));
}

Work before_region(TaggedEnd &e)
{
    return with_segment(e, {e.end.memory.data() - 1, 10, e.end.memory.handle()});
}

Work beyond_region(TaggedEnd &e)
{
    return with_segment(e, {e.end.memory.data() + e.end.memory.size() - 9, 10, e.end.memory.handle()});
}

Work null_address(TaggedEnd &e)
{
    return with_segment(e, {nullptr, 10, e.end.memory.handle()});
}

Work second_segment_bad(TaggedEnd &e)
{
    Work work = e.end.memory.transfer(e.end.memory.bytes(5));
    return work.local(e.foreign.bytes(5));
}

// Format: a descriptor that makes no sense, or is not where descriptors may be.

Work reserved_operation(TaggedEnd &e)
{
    return e.end.memory.transfer(e.end.memory.bytes(10)).op(VIP_CONTROL_OP_RESERVED);
}

Work too_many_segments(TaggedEnd &e)
{
    const VIP_ULONG most = e.other_nic.attributes().MaxSegmentsPerDesc;
    Work work = e.end.memory.work(static_cast<unsigned>(most + 1));
    for (VIP_ULONG i = 0; i <= most; ++i) {
        work.local(e.end.memory.bytes(1));
    }
    return work;
}

Work unaligned_descriptor(TaggedEnd &e)
{
    Work work = e.end.memory.work(6);
    work.desc = reinterpret_cast<VIP_DESCRIPTOR *>(reinterpret_cast<VIP_UINT8 *>(work.desc) + 32);
    return work.local(e.end.memory.bytes(10));
}

Work unregistered_descriptor(TaggedEnd &e)
{
    Work work = e.end.memory.transfer(e.end.memory.bytes(10));
    work.handle ^= 0x00100000;
    return work;
}

Work descriptor_of_another_region(TaggedEnd &e)
{
    Work work = e.end.memory.transfer(e.end.memory.bytes(10));
    work.handle = e.foreign.handle();
    return work;
}

/** The client posts a spoilt send and then a good one. */
template <Fault fault, VIP_UINT32 bits>
void spoilt_send(Peer &peer)
{
    TaggedEnd e(peer);
    e.end.connect();
    const Work bad = fault(e);
    peer.sync();
    post_send(e.end.vi, bad);
    EXPECT(send_failed(e.end.vi) == bad.desc);
    EXPECT_EQ(bits, bad.status() & VIP_STATUS_ERROR_MASK);
    EXPECT((bad.status() & VIP_STATUS_DONE) != 0);
    const Work good = e.end.send("good");
    if (peer.reliable()) {
        e.end.vi.await(VIP_STATE_ERROR);
        EXPECT(send_failed(e.end.vi) == good.desc);
        EXPECT_STATUS(VIP_STATUS_OP_SEND | VIP_STATUS_DESC_FLUSHED_ERROR, good.desc);
    } else {
        EXPECT(sent(e.end.vi) == good.desc);
        EXPECT_EQ(VIP_STATE_CONNECTED, e.end.vi.state());
    }
    peer.sync();
}

/** The server of the above: gets the good message, or loses the connection. */
void healthy_receiver(Peer &peer)
{
    TaggedEnd e(peer);
    const Work in = e.end.receive(10), second = e.end.receive(10);
    e.end.connect();
    peer.sync();
    if (peer.reliable()) {
        e.errors.expect(e.end.vi, VIP_ERROR_CONN_LOST);
        for (const Work *work : {&in, &second}) {
            EXPECT(receive_failed(e.end.vi) == work->desc);
            EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, work->desc);
        }
        EXPECT_EQ(VIP_STATE_ERROR, e.end.vi.state());
        e.errors.expect_none(e.end.vi);
    } else {
        EXPECT(received(e.end.vi) == in.desc);
        EXPECT_EQ(std::string("good"), in.buffer.part(0, 4).text());
    }
    peer.sync();
}

/** The server posts a spoilt receive and then a good one. */
template <Fault fault, VIP_UINT32 bits>
void spoilt_receive(Peer &peer)
{
    TaggedEnd e(peer);
    e.end.connect();
    const Work bad = fault(e);
    post_recv(e.end.vi, bad);
    const Work good = e.end.receive(10);
    peer.sync();
    EXPECT(receive_failed(e.end.vi) == bad.desc);
    EXPECT_EQ(bits, bad.status() & VIP_STATUS_ERROR_MASK);
    EXPECT_EQ(static_cast<VIP_UINT32>(VIP_STATUS_OP_RECEIVE), bad.status() & VIP_STATUS_OP_MASK);
    peer.sync();
    if (peer.reliable()) {
        e.end.vi.await(VIP_STATE_ERROR);
        EXPECT(receive_failed(e.end.vi) == good.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, good.desc);
    } else {
        EXPECT(received(e.end.vi) == good.desc);
        EXPECT_EQ(VIP_STATE_CONNECTED, e.end.vi.state());
    }
    peer.sync();
}

/** The client of the above: one message for the spoilt receive, one for the good one. */
void healthy_sender(Peer &peer)
{
    TaggedEnd e(peer);
    e.end.connect();
    peer.sync();
    e.end.send("the first!"); // ten bytes: all that a spoilt receive has
    peer.sync();
    if (peer.reliable()) {
        e.end.vi.await(VIP_STATE_ERROR);
    } else {
        sent(e.end.vi);
        e.end.send("second");
        sent(e.end.vi);
    }
    peer.sync();
}

} // namespace

#define PROTECTION_CASE(what, fault) \
    TWO_ROLE_CASE_EACH_LEVEL("a send from " what " is PROTECTION_ERROR", "[VipPostSend][full]") = { \
        healthy_receiver, spoilt_send<fault, VIP_STATUS_PROTECTION_ERROR>}; \
    TWO_ROLE_CASE_EACH_LEVEL("a receive into " what " is PROTECTION_ERROR", "[VipPostRecv][full]") = { \
        spoilt_receive<fault, VIP_STATUS_PROTECTION_ERROR>, healthy_sender};

PROTECTION_CASE("a handle that was never handed out", unknown_handle)
PROTECTION_CASE("a handle of 0", zero_handle)
PROTECTION_CASE("a deregistered region", stale_handle)
PROTECTION_CASE("another NIC handle's region", other_nics_handle)
PROTECTION_CASE("a region of another tag", other_tag)
PROTECTION_CASE("a byte before its region", before_region)
PROTECTION_CASE("a byte beyond its region", beyond_region)
PROTECTION_CASE("address NULL", null_address)
PROTECTION_CASE("segments of which the second is of another tag", second_segment_bad)

#define FORMAT_CASE(what, fault) \
    TWO_ROLE_CASE_EACH_LEVEL("a send with " what " is FORMAT_ERROR", "[VipPostSend][full]") = { \
        healthy_receiver, spoilt_send<fault, VIP_STATUS_FORMAT_ERROR>}; \
    TWO_ROLE_CASE_EACH_LEVEL("a receive with " what " is FORMAT_ERROR", "[VipPostRecv][full]") = { \
        spoilt_receive<fault, VIP_STATUS_FORMAT_ERROR>, healthy_sender};

FORMAT_CASE("too many segments", too_many_segments)
FORMAT_CASE("an unaligned descriptor", unaligned_descriptor)
TWO_ROLE_CASE_EACH_LEVEL("a send with the reserved operation is FORMAT_ERROR", "[VipPostSend][full]") = {
    healthy_receiver, spoilt_send<reserved_operation, VIP_STATUS_FORMAT_ERROR>};

namespace {

/**
 * A descriptor that its memory handle does not cover may be refused at once, for it may not be
 * written to; or it completes with FORMAT_ERROR and is told to the error callback.
 */
template <Fault fault>
void uncovered_descriptors(Peer &peer)
{
    TaggedEnd e(peer);
    e.end.connect();
    const Work bad = fault(e);
    const VIP_DESCRIPTOR before = *bad.desc;
    const VIP_RETURN rc = VipPostSend(e.end.vi, bad.desc, bad.handle);
    EXPECT_EQ(rc, VipPostRecv(e.end.vi, bad.desc, bad.handle));
    if (rc == VIP_SUCCESS) {
        EXPECT(send_failed(e.end.vi) == bad.desc);
        EXPECT_EQ(static_cast<VIP_UINT32>(VIP_STATUS_FORMAT_ERROR), bad.status() & VIP_STATUS_ERROR_MASK);
        EXPECT_EQ(VIP_ERROR_POST_DESC, e.errors.next(e.end.vi).ErrorCode);
    } else {
        EXPECT_EQ(VIP_INVALID_PARAMETER, rc);
        EXPECT_EQ(0, std::memcmp(&before, bad.desc, sizeof before));
        EXPECT(e.end.vi.send_queue_empty() && e.end.vi.recv_queue_empty());
        EXPECT_EQ(VIP_STATE_CONNECTED, e.end.vi.state());
        e.errors.expect_none();
    }
    peer.sync();
}

void unaligned_is_reported(Peer &peer)
{
    TaggedEnd e(peer);
    e.end.connect();
    post_send(e.end.vi, unaligned_descriptor(e));
    send_failed(e.end.vi);
    EXPECT_EQ(VIP_ERROR_POST_DESC, e.errors.next(e.end.vi).ErrorCode);
    peer.sync();
}

void only_connect(Peer &peer)
{
    TaggedEnd e(peer);
    e.end.connect();
    peer.sync();
}

} // namespace

TWO_ROLE_CASE("an unaligned descriptor is VIP_ERROR_POST_DESC to the error callback",
              "[VipErrorCallback][full]") = {only_connect, unaligned_is_reported};

TWO_ROLE_CASE("an unregistered descriptor is VIP_INVALID_PARAMETER or FORMAT_ERROR",
              "[VipPostSend][full]") = {only_connect, uncovered_descriptors<unregistered_descriptor>};

TWO_ROLE_CASE("a descriptor outside its region is VIP_INVALID_PARAMETER or FORMAT_ERROR",
              "[VipPostSend][full]") = {only_connect, uncovered_descriptors<descriptor_of_another_region>};

TWO_ROLE_CASE_EACH_LEVEL("a send of more than the VI's MaxTransferSize is FORMAT_ERROR or LENGTH_ERROR",
                         "[VipPostSend][full]") = {
    [](Peer &peer) {
        TaggedEnd e(peer);
        const Work in = e.end.receive(4097);
        e.end.connect();
        peer.sync();
        EXPECT(in.buffer.all(0));
        peer.sync();
    },
    [](Peer &peer) {
        TaggedEnd e(peer);
        e.end.connect();
        Work out = e.end.memory.work(2);
        const Span bytes = e.end.memory.bytes(4097);
        bytes.fill(1);
        post_send(e.end.vi, out.local(bytes.part(0, 4000)).local(bytes.part(4000, 97)));
        EXPECT(send_failed(e.end.vi) == out.desc);
        const VIP_UINT32 errors = out.status() & VIP_STATUS_ERROR_MASK;
        EXPECT(errors == VIP_STATUS_FORMAT_ERROR || errors == VIP_STATUS_LENGTH_ERROR);
        if (peer.reliable()) {
            e.end.vi.await(VIP_STATE_ERROR); // a device of its own may have to be quiesced first
        }
        EXPECT_EQ(peer.reliable() ? VIP_STATE_ERROR : VIP_STATE_CONNECTED, e.end.vi.state());
        peer.sync();
        peer.sync();
    },
};

TWO_ROLE_CASE_EACH_LEVEL("a message longer than its receive is LENGTH_ERROR there", "[VipPostRecv][full]") = {
    [](Peer &peer) {
        TaggedEnd e(peer);
        const Span all = e.end.memory.bytes(100);
        const Work small = e.end.memory.transfer(all.part(0, 9));
        post_recv(e.end.vi, small);
        const Work next = e.end.receive(10);
        e.end.connect();
        EXPECT(receive_failed(e.end.vi) == small.desc);
        EXPECT_EQ(static_cast<VIP_UINT32>(VIP_STATUS_LENGTH_ERROR), small.status() & VIP_STATUS_ERROR_MASK);
        EXPECT(all.part(9, 91).all(0)); // nothing beyond the receive's own bytes
        if (peer.reliable()) {
            EXPECT(receive_failed(e.end.vi) == next.desc);
            EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, next.desc);
            EXPECT_EQ(VIP_STATE_ERROR, e.end.vi.state());
        } else {
            EXPECT(received(e.end.vi) == next.desc);
            EXPECT_EQ(std::string("fits"), next.buffer.part(0, 4).text());
        }
        peer.sync();
    },
    [](Peer &peer) {
        TaggedEnd e(peer);
        e.end.connect();
        const Work out = e.end.send("ten bytes!");
        if (peer.level() == VIP_SERVICE_RELIABLE_RECEPTION) {
            EXPECT(send_failed(e.end.vi) == out.desc);
            EXPECT_STATUS(VIP_STATUS_OP_SEND | VIP_STATUS_REMOTE_DESC_ERROR, out.desc);
        } else if (!peer.reliable()) {
            EXPECT(sent(e.end.vi) == out.desc);
            e.end.send("fits");
            sent(e.end.vi);
        }
        if (peer.reliable()) {
            e.end.vi.await(VIP_STATE_ERROR);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE_RELIABLE("a message without a receive is VIP_ERROR_RECVQ_EMPTY there and breaks the connection",
                       "[VipErrorCallback][full]") = {
    [](Peer &peer) {
        TaggedEnd e(peer);
        e.end.connect();
        peer.sync();
        e.errors.expect(e.end.vi, VIP_ERROR_RECVQ_EMPTY);
        EXPECT_EQ(VIP_STATE_ERROR, e.end.vi.state());
        e.errors.expect_none(e.end.vi);
        peer.sync();
    },
    [](Peer &peer) {
        TaggedEnd e(peer);
        e.end.connect();
        peer.sync();
        const Work out = e.end.send("nobody");
        if (peer.level() == VIP_SERVICE_RELIABLE_RECEPTION) {
            EXPECT(send_failed(e.end.vi) == out.desc);
            EXPECT_STATUS(VIP_STATUS_OP_SEND | VIP_STATUS_REMOTE_DESC_ERROR, out.desc);
        }
        e.errors.expect(e.end.vi, VIP_ERROR_CONN_LOST);
        EXPECT_EQ(VIP_STATE_ERROR, e.end.vi.state());
        e.errors.expect_none(e.end.vi);
        peer.sync();
    },
};

TWO_ROLE_CASE_AT(VIP_SERVICE_UNRELIABLE,
                 "a message without a receive is dropped on an Unreliable VI, which stays connected",
                 "[VipPostSend][full]") = {
    [](Peer &peer) {
        TaggedEnd e(peer);
        e.end.connect();
        peer.sync();
        peer.sync(); // the first message was sent meanwhile
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(e.end.vi, kMoment, &done));
        const Work in = e.end.receive(10);
        REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(e.end.vi, kMoment, &done)); // it was dropped, not kept
        EXPECT_EQ(VIP_STATE_CONNECTED, e.end.vi.state());
        peer.sync();
        EXPECT(received(e.end.vi) == in.desc);
        EXPECT_EQ(std::string("2nd"), in.buffer.part(0, 3).text());
        peer.sync();
    },
    [](Peer &peer) {
        TaggedEnd e(peer);
        e.end.connect();
        peer.sync();
        e.end.send("1st");
        sent(e.end.vi);
        peer.sync();
        peer.sync();
        e.end.send("2nd");
        sent(e.end.vi);
        EXPECT_EQ(VIP_STATE_CONNECTED, e.end.vi.state());
        peer.sync();
    },
};

TWO_ROLE_CASE_RELIABLE(
    "after a failure each descriptor comes back exactly once, in order, from its own queue",
    "[VipSendDone][full]") = {
    [](Peer &peer) {
        TaggedEnd e(peer);
        std::vector<Work> works;
        for (int i = 0; i < 5; ++i) {
            works.push_back(e.end.receive(i == 2 ? 1 : 100)); // the third message is too long
        }
        e.end.connect();
        peer.sync();
        for (unsigned i = 0; i < 5; ++i) {
            EXPECT((i < 2 ? received(e.end.vi) : receive_failed(e.end.vi)) == works[i].desc);
        }
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_LENGTH_ERROR, works[2].desc);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, works[3].desc);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, works[4].desc);
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(e.end.vi, &done));
        EXPECT(e.end.vi.recv_queue_empty());
        peer.sync();
    },
    [](Peer &peer) {
        TaggedEnd e(peer);
        const Work own = e.end.receive(10);
        e.end.connect();
        peer.sync();
        std::vector<Work> works;
        for (int i = 0; i < 6; ++i) {
            works.push_back(e.end.send("a message of some length"));
        }
        bool failed = false;
        for (const Work &work : works) {
            VIP_DESCRIPTOR *done = nullptr;
            const VIP_RETURN rc = VipSendWait(e.end.vi, patience(), &done);
            EXPECT(rc == VIP_SUCCESS || rc == VIP_DESCRIPTOR_ERROR);
            EXPECT(done == work.desc);
            EXPECT(!(failed && rc == VIP_SUCCESS)); // what follows a failure is flushed
            failed = rc == VIP_DESCRIPTOR_ERROR;
        }
        EXPECT(receive_failed(e.end.vi) == own.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, own.desc);
        EXPECT(e.end.vi.send_queue_empty() && e.end.vi.recv_queue_empty());
        peer.sync();
    },
};

TEST_CASE("a VI without a tag takes memory of any tag of its NIC handle, not of another",
          "[VipPostSend][full]")
{
    ConnectedPair pair(VIP_SERVICE_UNRELIABLE);
    const Ptag tag(pair.client_nic);
    Memory tagged(pair.client_nic, 4096, rdma_memory(tag)), foreign(pair.server_nic, 4096);
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(10));
    post_recv(pair.server, in);
    const Work out = tagged.transfer(tagged.text("any tag"));
    post_send(pair.client, out);
    EXPECT(sent(pair.client) == out.desc);
    EXPECT(received(pair.server) == in.desc);
    EXPECT_EQ(std::string("any tag"), in.buffer.part(0, 7).text());
    const Work bad = tagged.transfer(foreign.text("foreign"));
    post_send(pair.client, bad);
    EXPECT(send_failed(pair.client) == bad.desc);
    EXPECT_STATUS(VIP_STATUS_OP_SEND | VIP_STATUS_PROTECTION_ERROR, bad.desc);
}
