// SPDX-License-Identifier: MIT
//
// RDMA Write and RDMA Read that succeed: data, sizes, offsets, segments, immediate data, fences, at
// every reliability level. The remote program makes no VIPL call while it is written or read. What
// is refused is in test_rdma_denied.cpp.
#include <algorithm>
#include <cstring>
#include <vector>

#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

constexpr VIP_UINT8 kLast = 0xA7;

/** Bytes to write, the last of which the receiver waits for. */
void prepare(const Span &bytes, unsigned seed)
{
    bytes.fill(seed);
    bytes.data[bytes.size - 1] = kLast;
}

/** Wait, without a call to VIPL, until the last byte has come; then all others must be there. */
void await_written(const Span &bytes, unsigned seed)
{
    const unsigned long long end = now_ms() + patience();
    while (bytes.poll_last() != kLast) {
        EXPECT(now_ms() < end);
        give_way();
    }
    EXPECT(bytes.part(0, bytes.size - 1).holds(seed));
}

constexpr unsigned kManyReads = 32, kLongRead = 32000;

bool has_rdma_read(Peer &peer)
{
    return (peer.nic().attributes().RDMAReadSupport & peer.level()) != 0;
}

void need_rdma_read(Peer &peer)
{
    if (!has_rdma_read(peer)) {
        throw NotApplicable("the device has no RDMA Read at this level");
    }
}

void write(Endpoint &end, RemoteSpan remote, Span bytes)
{
    const Work work = end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, remote, bytes);
    post_send(end.vi, work);
    EXPECT(sent(end.vi) == work.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RDMA_WRITE, work.desc);
    EXPECT_EQ(bytes.size, work.desc->CS.Length);
}

void read(Endpoint &end, RemoteSpan remote, Span bytes)
{
    const Work work = end.memory.rdma(VIP_CONTROL_OP_RDMAREAD, remote, bytes);
    post_send(end.vi, work);
    EXPECT(sent(end.vi) == work.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RDMA_READ, work.desc);
    EXPECT_EQ(bytes.size, work.desc->CS.Length);
}

/** Offer bytes to the other role, and stay out of VIPL until it is done. */
void offer(Peer &peer, const Span &bytes)
{
    peer.send(bytes.remote());
}

} // namespace

TWO_ROLE_CASE_EACH_LEVEL("RDMA Write places data without a call by the remote program, and uses no receive",
                         "[VipPostSend][functional]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Span target = end.memory.bytes(3000);
        const Work receive = end.receive(10);
        end.connect();
        offer(peer, target);
        await_written(target, 1);
        peer.sync();
        VIP_DESCRIPTOR *done = receive.desc;
        REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(end.vi, &done));
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        const Span bytes = end.memory.bytes(3000);
        prepare(bytes, 1);
        write(end, peer.receive<RemoteSpan>(), bytes);
        peer.sync();
        peer.sync();
    },
};

TWO_ROLE_CASE_EACH_LEVEL("RDMA Read fetches data without a call by the remote program, and uses no receive",
                         "[VipPostSend][full]") = {
    [](Peer &peer) {
        need_rdma_read(peer);
        Endpoint end(peer);
        const Span source = end.memory.bytes(3000);
        source.fill(2);
        const Work receive = end.receive(10);
        end.connect();
        offer(peer, source);
        peer.sync();
        VIP_DESCRIPTOR *done = receive.desc;
        REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(end.vi, &done));
        EXPECT(source.holds(2));
        peer.sync();
    },
    [](Peer &peer) {
        need_rdma_read(peer);
        Endpoint end(peer);
        end.connect();
        const Span bytes = end.memory.bytes(3000);
        read(end, peer.receive<RemoteSpan>(), bytes);
        EXPECT(bytes.holds(2));
        peer.sync();
        peer.sync();
    },
};

TWO_ROLE_CASE("RDMA Write moves data between any two byte offsets, and not a byte more",
              "[VipPostSend][functional]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Span target = end.memory.bytes(64 * 256);
        end.connect();
        offer(peer, target);
        for (unsigned offset = 0; offset < 64; ++offset) {
            const Span cell = target.part(offset * 256, 256);
            const unsigned start = (offset * 5) % 64;
            await_written(cell.part(start, 150), offset);
            EXPECT(cell.part(0, start).all(0));
            EXPECT(cell.part(start + 150, 256 - start - 150).all(0));
        }
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        const RemoteSpan target = peer.receive<RemoteSpan>();
        for (unsigned offset = 0; offset < 64; ++offset) {
            const Span bytes = end.memory.bytes(150, offset);
            prepare(bytes, offset);
            write(end, target + offset * 256 + (offset * 5) % 64, bytes);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("RDMA Read moves data between any two byte offsets, and not a byte more",
              "[VipPostSend][full]") = {
    [](Peer &peer) {
        need_rdma_read(peer);
        Endpoint end(peer);
        const Span source = end.memory.bytes(512);
        source.fill(8);
        end.connect();
        offer(peer, source);
        peer.sync();
    },
    [](Peer &peer) {
        need_rdma_read(peer);
        Endpoint end(peer);
        end.connect();
        const RemoteSpan source = peer.receive<RemoteSpan>();
        const Span whole = end.memory.bytes(512);
        read(end, source, whole);
        EXPECT(whole.holds(8));
        for (unsigned offset = 0; offset < 64; ++offset) {
            const unsigned start = (offset * 5) % 64;
            const Span cell = end.memory.bytes(256);
            read(end, source + offset, cell.part(start, 150));
            EXPECT_EQ(0, std::memcmp(cell.data + start, whole.data + offset, 150));
            EXPECT(cell.part(0, start).all(0));
            EXPECT(cell.part(start + 150, 256 - start - 150).all(0));
        }
        peer.sync();
    },
};

namespace {

constexpr VIP_UINT32 kMost = 1024 * 1024;
constexpr VIP_UINT32 kSizes[] = {1, 2, 3, 7, 8, 9, 64, 4095, 4096, 4097, 65535, 65537, kMost};

} // namespace

TWO_ROLE_CASE_EACH_LEVEL("RDMA Write and RDMA Read move every size up to MaxTransferSize",
                         "[VipPostSend][full]") = {
    [](Peer &peer) {
        Endpoint end(peer, vi_attributes(peer.level(), kMost), kMost + 4096);
        const Span target = end.memory.bytes(kMost);
        end.connect();
        unsigned seed = 0;
        for (const VIP_UINT32 size : kSizes) {
            target.data[size - 1] = 0;
            offer(peer, target);
            await_written(target.part(0, size), ++seed);
            peer.sync(); // the client has read it back
        }
    },
    [](Peer &peer) {
        Endpoint end(peer, vi_attributes(peer.level(), kMost), 2 * kMost + 65536);
        end.connect();
        const Span out = end.memory.bytes(kMost), in = end.memory.bytes(kMost);
        unsigned seed = 0;
        for (const VIP_UINT32 size : kSizes) {
            const RemoteSpan target = peer.receive<RemoteSpan>();
            prepare(out.part(0, size), ++seed);
            write(end, target, out.part(0, size));
            if (has_rdma_read(peer)) {
                read(end, target, in.part(0, size)); // after the write, on the same queue
                EXPECT_EQ(0, std::memcmp(in.data, out.data, size));
            }
            peer.sync();
        }
    },
};

TWO_ROLE_CASE_EACH_LEVEL("RDMA Write gathers and RDMA Read scatters 251 segments", "[VipPostSend][full]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Span target = end.memory.bytes(251 * 7, 5);
        end.connect();
        offer(peer, target);
        await_written(target, 4);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        const RemoteSpan target = peer.receive<RemoteSpan>();
        const Span out = end.memory.bytes(251 * 7), in = end.memory.bytes(251 * 7, 3);
        prepare(out, 4);
        Work put = end.memory.work(252), get = end.memory.work(252);
        put.op(VIP_CONTROL_OP_RDMAWRITE).remote(target);
        get.op(VIP_CONTROL_OP_RDMAREAD).remote(target);
        for (VIP_UINT32 i = 0; i < 251; ++i) {
            put.local(out.part(i * 7, 7));
            get.local(in.part(i * 7, 7));
        }
        post_send(end.vi, put);
        EXPECT(sent(end.vi) == put.desc);
        if (has_rdma_read(peer)) {
            post_send(end.vi, get);
            EXPECT(sent(end.vi) == get.desc);
            EXPECT_EQ(251u * 7, get.desc->CS.Length);
            EXPECT_EQ(0, std::memcmp(in.data, out.data, in.size));
        }
        peer.sync();
    },
};

TWO_ROLE_CASE_EACH_LEVEL("RDMA Write and RDMA Read of no bytes succeed and move none",
                         "[VipPostSend][full]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Span target = end.memory.bytes(16);
        end.connect();
        offer(peer, target);
        peer.sync();
        EXPECT(target.all(0));
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        const RemoteSpan target = peer.receive<RemoteSpan>();
        const Span bytes = end.memory.bytes(16);
        write(end, target, bytes.part(0, 0));
        if (has_rdma_read(peer)) {
            read(end, target, bytes.part(0, 0));
        }
        Work alone = end.memory.work();
        post_send(end.vi, alone.op(VIP_CONTROL_OP_RDMAWRITE).remote(target)); // the address segment alone
        EXPECT(sent(end.vi) == alone.desc);
        EXPECT_EQ(0u, alone.desc->CS.Length);
        peer.sync();
    },
};

TWO_ROLE_CASE_EACH_LEVEL("RDMA Write with immediate data consumes a receive and leaves its buffer alone",
                         "[VipPostRecv][functional]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Span target = end.memory.bytes(100);
        const Work first = end.receive(3), second = end.receive(3);
        end.connect();
        offer(peer, target);
        EXPECT(received(end.vi) == first.desc);
        EXPECT_STATUS(VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE, first.desc);
        EXPECT_EQ(100u, first.desc->CS.Length);
        EXPECT_EQ(0x0BADCAFEu, first.desc->CS.ImmediateData);
        EXPECT(first.buffer.all(0)); // smaller than the data, and untouched
        EXPECT(target.holds(6));
        EXPECT(received(end.vi) == second.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, second.desc);
        EXPECT_EQ(std::string("end"), second.buffer.text());
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        const Span bytes = end.memory.bytes(100);
        bytes.fill(6);
        Work out = end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, peer.receive<RemoteSpan>(), bytes);
        post_send(end.vi, out.immediate(0x0BADCAFE));
        EXPECT(sent(end.vi) == out.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RDMA_WRITE, out.desc);
        end.send("end");
        sent(end.vi);
        peer.sync();
    },
};

TWO_ROLE_CASE_EACH_LEVEL("RDMA Write of immediate data alone consumes a receive",
                         "[VipPostRecv][functional]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Span target = end.memory.bytes(8);
        const Work in = end.memory.work();
        post_recv(end.vi, in);
        end.connect();
        offer(peer, target);
        EXPECT(received(end.vi) == in.desc);
        EXPECT_STATUS(VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE, in.desc);
        EXPECT_EQ(0u, in.desc->CS.Length);
        EXPECT_EQ(77u, in.desc->CS.ImmediateData);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        Work out = end.memory.work();
        out.op(VIP_CONTROL_OP_RDMAWRITE).remote(peer.receive<RemoteSpan>()).immediate(77);
        post_send(end.vi, out);
        EXPECT(sent(end.vi) == out.desc);
        peer.sync();
    },
};

TWO_ROLE_CASE_RELIABLE("RDMA Write is seen before the message that was sent after it",
                       "[VipPostSend][functional]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Span target = end.memory.bytes(20000);
        end.connect();
        for (unsigned round = 0; round < 20; ++round) {
            const Work in = end.receive(4);
            offer(peer, target);
            EXPECT(received(end.vi) == in.desc);
            EXPECT(target.holds(round));
            peer.sync();
        }
    },
    [](Peer &peer) {
        Endpoint end(peer);
        const Span bytes = end.memory.bytes(20000);
        end.connect();
        for (unsigned round = 0; round < 20; ++round) {
            bytes.fill(round);
            const Work put = end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, peer.receive<RemoteSpan>(), bytes);
            const Work message = end.memory.transfer(end.memory.text("done"));
            post_send(end.vi, put);
            post_send(end.vi, message);
            EXPECT(sent(end.vi) == put.desc);
            EXPECT(sent(end.vi) == message.desc);
            peer.sync();
        }
    },
};

TWO_ROLE_CASE_EACH_LEVEL("a fenced send waits for the RDMA Reads before it", "[VipPostSend][full]") = {
    [](Peer &peer) {
        need_rdma_read(peer);
        Endpoint end(peer);
        const Span source = end.memory.bytes(30000);
        source.fill(12);
        const Work in = end.receive(30000);
        end.connect();
        offer(peer, source);
        EXPECT(received(end.vi) == in.desc);
        EXPECT(in.buffer.holds(12)); // what was read comes back: the read was over before the send began
        peer.sync();
    },
    [](Peer &peer) {
        need_rdma_read(peer);
        Endpoint end(peer);
        end.connect();
        const Span bytes = end.memory.bytes(30000);
        const Work get = end.memory.rdma(VIP_CONTROL_OP_RDMAREAD, peer.receive<RemoteSpan>(), bytes);
        Work echo = end.memory.transfer(bytes);
        post_send(end.vi, get);
        post_send(end.vi, echo.op(VIP_CONTROL_QFENCE));
        EXPECT(sent(end.vi) == get.desc);
        EXPECT(sent(end.vi) == echo.desc);
        EXPECT_STATUS(VIP_STATUS_OP_SEND, echo.desc);
        peer.sync();
    },
};

TWO_ROLE_CASE("a fence takes no harm where no RDMA Read is outstanding", "[VipPostSend][full]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Span target = end.memory.bytes(8);
        const Work in = end.receive(5);
        end.connect();
        offer(peer, target);
        EXPECT(received(end.vi) == in.desc);
        EXPECT_EQ(std::string("fence"), in.buffer.text());
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        Work put = end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_QFENCE, peer.receive<RemoteSpan>(),
                                   end.memory.bytes(8));
        Work out = end.memory.transfer(end.memory.text("fence"));
        post_send(end.vi, put);
        post_send(end.vi, out.op(VIP_CONTROL_QFENCE));
        EXPECT(sent(end.vi) == put.desc);
        EXPECT(sent(end.vi) == out.desc);
        peer.sync();
    },
};

TWO_ROLE_CASE("sends, RDMA Writes and RDMA Reads of one queue complete in posting order",
              "[VipSendDone][full]") = {
    [](Peer &peer) {
        need_rdma_read(peer);
        Endpoint end(peer);
        const Span target = end.memory.bytes(4096);
        for (int i = 0; i < 20; ++i) {
            end.receive(64);
        }
        end.connect();
        offer(peer, target);
        for (int i = 0; i < 20; ++i) {
            received(end.vi);
        }
        peer.sync();
    },
    [](Peer &peer) {
        need_rdma_read(peer);
        Endpoint end(peer);
        end.connect();
        const RemoteSpan target = peer.receive<RemoteSpan>();
        std::vector<Work> works;
        for (int i = 0; i < 20; ++i) {
            works.push_back(end.memory.rdma(VIP_CONTROL_OP_RDMAREAD, target, end.memory.bytes(2000)));
            works.push_back(end.memory.transfer(end.memory.bytes(64)));
            works.push_back(end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, target, end.memory.bytes(100)));
        }
        for (const Work &work : works) {
            post_send(end.vi, work);
        }
        for (const Work &work : works) {
            EXPECT(sent(end.vi) == work.desc);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("VipDisconnect answers the RDMA Reads that came before what was received",
              "[VipDisconnect][full]") = {
    [](Peer &peer) {
        need_rdma_read(peer);
        Endpoint end(peer);
        Memory memory(peer.nic(), kManyReads * kLongRead, rdma_memory());
        const Span source = memory.bytes(kManyReads * kLongRead);
        for (unsigned i = 0; i < kManyReads; ++i) {
            source.part(i * kLongRead, kLongRead).fill(i);
        }
        end.receive(16);
        end.connect();
        offer(peer, source);
        received(end.vi);
        REQUIRE_VIP(VipDisconnect(end.vi));
        peer.sync();
    },
    [](Peer &peer) {
        need_rdma_read(peer);
        Endpoint end(peer);
        Memory memory(peer.nic(), (kManyReads + 1) * kLongRead, rdma_memory());
        std::vector<Work> reads;
        std::vector<Span> copies;
        const Work leave = end.memory.transfer(end.memory.text("leave"));
        end.connect();
        const RemoteSpan from = peer.receive<RemoteSpan>();
        for (unsigned i = 0; i < kManyReads; ++i) {
            copies.push_back(memory.bytes(kLongRead));
            reads.push_back(memory.rdma(VIP_CONTROL_OP_RDMAREAD, from + i * kLongRead, copies[i]));
            post_send(end.vi, reads[i]);
        }
        post_send(end.vi, leave);
        for (unsigned i = 0; i < kManyReads; ++i) { // the other end may have been asked to leave by now
            EXPECT(sent(end.vi) == reads[i].desc);
            EXPECT_STATUS(VIP_STATUS_OP_RDMA_READ, reads[i].desc);
            EXPECT(copies[i].holds(i));
        }
        EXPECT(sent(end.vi) == leave.desc);
        peer.sync();
        end.vi.await(VIP_STATE_ERROR);
    },
};

TWO_ROLE_CASE("VipSetMemAttributes gives and takes the right to write at once",
              "[VipSetMemAttributes][full]") = {
    [](Peer &peer) {
        Nic &nic = peer.nic();
        Memory target(nic, 64); // no rights yet
        Endpoint end(peer, vi_attributes(VIP_SERVICE_UNRELIABLE));
        end.connect();
        VIP_MEM_ATTRIBUTES open = {nullptr, VIP_TRUE, VIP_FALSE}, closed = {};
        REQUIRE_VIP(VipSetMemAttributes(nic, target.data(), target.handle(), &open));
        offer(peer, target.bytes(16));
        await_written({target.data(), 16, target.handle()}, 1);
        REQUIRE_VIP(VipSetMemAttributes(nic, target.data(), target.handle(), &closed));
        peer.sync();
        peer.sync(); // a second write was tried
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(end.vi, kMoment, &done));
        await_written({target.data(), 16, target.handle()}, 1);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer, vi_attributes(VIP_SERVICE_UNRELIABLE));
        end.connect();
        const RemoteSpan target = peer.receive<RemoteSpan>();
        const Span first = end.memory.bytes(16), second = end.memory.bytes(16);
        prepare(first, 1);
        prepare(second, 2);
        write(end, target, first);
        peer.sync();
        post_send(end.vi, end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, target, second));
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipSendWait(end.vi, patience(), &done);
        REQUIRE_RC(rc == VIP_SUCCESS ? rc : VIP_DESCRIPTOR_ERROR, rc); // Unreliable: it may have left
        peer.sync();
        peer.sync();
    },
};
