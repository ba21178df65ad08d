// SPDX-License-Identifier: MIT
//
// A connection between a VI and a foreign peer, whichever of them asked for it, and every kind of
// message over it.
#ifndef VIPL_FOREIGN_EXERCISE_HPP
#define VIPL_FOREIGN_EXERCISE_HPP

#include <future>

#include "peer.hpp"

namespace foreign {

/** Our side: a device with one port, a VI, memory that peers may write and read. */
struct Side {
    explicit Side(std::uint16_t port, std::size_t bytes = 1 << 16,
                  VIP_VI_ATTRIBUTES attributes = vi_attributes(VIP_SERVICE_RELIABLE_DELIVERY, 1 << 22))
        : nic((use_port(port), device_under_test())), memory(nic, bytes, rdma_memory()), vi(nic, attributes)
    {
        REQUIRE_VIP(VipErrorCallback(nic, nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR *) {}));
        for (Work &each : in) {
            each = memory.transfer(memory.bytes(4000));
            post_recv(vi, each);
        }
        board = memory.bytes(6000);
        out = memory.bytes(6000);
        work = memory.work(2);
    }

    VIP_RETURN wait_and_accept()
    {
        NetAddress local = nic.address(""), from(2 * 65536);
        VIP_VI_ATTRIBUTES theirs{};
        VIP_CONN_HANDLE connection = nullptr;
        REQUIRE_VIP(VipConnectWait(nic, local, patience(), from, &theirs, &connection));
        EXPECT_EQ(std::string(), from.discriminator());
        EXPECT_EQ(VIP_SERVICE_RELIABLE_DELIVERY + 0, theirs.ReliabilityLevel + 0);
        EXPECT(theirs.EnableRdmaRead != VIP_FALSE && theirs.EnableRdmaWrite != VIP_FALSE);
        EXPECT(theirs.MaxTransferSize > 0);
        const VIP_RETURN rc = VipConnectAccept(connection, vi);
        if (rc != VIP_SUCCESS) {
            VipConnectReject(connection);
        }
        return rc;
    }

    VIP_RETURN request()
    {
        NetAddress local = nic.address("me"), remote = nic.address("anybody");
        return VipConnectRequest(vi, local, remote, patience(), nullptr);
    }

    void send(const Bytes &data, VIP_UINT16 op = VIP_CONTROL_OP_SENDRECV, RemoteSpan where = {})
    {
        const Span bytes = out.part(0, static_cast<VIP_UINT32>(data.size()));
        std::copy(data.begin(), data.end(), bytes.data);
        std::memset(work.desc, 0, sizeof(VIP_DESCRIPTOR));
        work.op(op);
        if (op != VIP_CONTROL_OP_SENDRECV) {
            work.remote(where);
        }
        work.local(bytes);
        post_send(vi, work);
    }

    /** The next receive has this data; it is posted again. */
    void expect(const Bytes &data)
    {
        Work &each = in[next++ % 2];
        EXPECT(received(vi) == each.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, each.desc);
        EXPECT_EQ(data.size(), std::size_t{each.desc->CS.Length});
        EXPECT(std::equal(data.begin(), data.end(), each.buffer.data));
        each = again(each);
        post_recv(vi, each);
    }

    Work again(const Work &old)
    {
        Work fresh = old;
        std::memset(fresh.desc, 0, sizeof(VIP_DESCRIPTOR));
        return fresh.local(old.buffer);
    }

    Nic nic;
    Memory memory;
    Vi vi;
    Work in[2];
    unsigned next = 0;
    Span board, out;
    Work work;
};

inline Bytes bytes_at(const Span &span, std::size_t n)
{
    return Bytes(span.data, span.data + n);
}

/** A connection that a foreign peer has asked for, as plainly as can be; both have spoken. */
struct Opened {
    explicit Opened(bool crc = false, bool markers = false, std::size_t bytes = 1 << 16)
        : side(port, bytes), peer(Socket())
    {
        std::future<VIP_RETURN> accepted =
            std::async(std::launch::async, [&] { return side.wait_and_accept(); });
        vipl_mpa_start frame{};
        frame.revision = 1;
        frame.crc = peer.crc = crc;
        frame.markers = markers;
        peer = Peer(call(port));
        peer.crc = crc;
        peer.markers = markers;
        peer.write(Peer::start(frame, {}));
        peer.read_start();
        REQUIRE_VIP(accepted.get());
        peer.write(peer.send_message({1}));
        side.expect({1});
    }
    const std::uint16_t port = free_port();
    Side side;
    Peer peer;
};

constexpr std::uint32_t kTheirStag = 0x0BADCAFE;
constexpr std::uint64_t kTheirMemory = 0x7766554433221100;

/** Every kind of message, both ways; `reads`: the peer answers RDMA Reads. */
inline void exercise(Side &side, Peer &peer, bool reads = true)
{
    const Bytes large = pattern(5000, 3), middle = pattern(2500, 5);
    peer.write(peer.send_message(pattern(100, 1)));
    side.expect(pattern(100, 1));
    peer.write(peer.send_message(middle, VIPL_RDMAP_SEND_SE));
    side.expect(middle);
    peer.write(peer.send_message({}));
    side.expect({});

    side.send(large);
    EXPECT(peer.take_send() == large);
    EXPECT(sent(side.vi) == side.work.desc);

    peer.write(peer.tagged_message(VIPL_RDMAP_WRITE, side.board.handle, side.board.remote().address, large));
    peer.write(peer.send_message({1}));
    side.expect({1});
    EXPECT(bytes_at(side.board, large.size()) == large);

    side.send(large, VIP_CONTROL_OP_RDMAWRITE, {kTheirMemory, kTheirStag});
    EXPECT(peer.take_tagged(VIPL_RDMAP_WRITE, kTheirStag, kTheirMemory) == large);
    if (reads) {
        VIP_DESCRIPTOR *done = nullptr;
        const vipl_rdmap_read confirm = peer.take_read_request();
        EXPECT_EQ(0u, confirm.bytes);
        REQUIRE_RC(VIP_NOT_DONE, VipSendDone(side.vi, &done));
        peer.write(peer.tagged_message(VIPL_RDMAP_READ_RESPONSE, confirm.sink_stag, confirm.sink_offset, {}));
    }
    EXPECT(sent(side.vi) == side.work.desc);

    const Bytes fetched = pattern(3000, 9);
    side.send(Bytes(fetched.size()), VIP_CONTROL_OP_RDMAREAD, {kTheirMemory, kTheirStag});
    if (reads) {
        const vipl_rdmap_read read = peer.take_read_request();
        EXPECT_EQ(std::uint32_t{3000}, read.bytes);
        EXPECT_EQ(kTheirStag, read.source_stag);
        EXPECT_EQ(kTheirMemory, read.source_offset);
        peer.write(peer.tagged_message(VIPL_RDMAP_READ_RESPONSE, read.sink_stag, read.sink_offset, fetched));
        EXPECT(sent(side.vi) == side.work.desc);
        EXPECT(bytes_at(side.out, fetched.size()) == fetched);
    } else {
        EXPECT(send_failed(side.vi) == side.work.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RDMA_READ | VIP_STATUS_RDMA_PROT_ERROR, side.work.desc);
    }

    peer.write(peer.read_request({0xABCD, 0x1000, 5000, side.board.handle, side.board.remote().address}));
    side.send({}); // progress, as well as order
    EXPECT(sent(side.vi) == side.work.desc);
    const std::uint32_t before = peer.their_send;
    std::future<Bytes> answer = std::async(std::launch::async, [&] {
        Bytes all;
        while (all.size() < 5000) { // the Send may come before
            const Segment got = peer.next();
            if (got.ddp.op == VIPL_RDMAP_SEND) {
                ++peer.their_send;
                continue;
            }
            EXPECT_EQ(+VIPL_RDMAP_READ_RESPONSE, +got.ddp.op);
            EXPECT_EQ(0xABCDu, got.ddp.stag);
            EXPECT_EQ(std::uint64_t{0x1000} + all.size(), got.ddp.offset);
            all.insert(all.end(), got.payload.begin(), got.payload.end());
        }
        return all;
    });
    peer.write(peer.send_message({2}));
    side.expect({2});
    EXPECT(answer.get() == large);
    if (peer.their_send == before) {
        EXPECT(peer.take_send().empty());
    }

    side.send({7});
    EXPECT(sent(side.vi) == side.work.desc);
    EXPECT(peer.take_send() == Bytes{7});
    side.send({});
    EXPECT(sent(side.vi) == side.work.desc);
    EXPECT(peer.take_send().empty());
}

/** Immediate data fails alone. */
inline void expect_no_immediate(Side &side, Peer &peer)
{
    std::memset(side.work.desc, 0, sizeof(VIP_DESCRIPTOR));
    post_send(side.vi, side.work.immediate(5));
    EXPECT(send_failed(side.vi) == side.work.desc);
    EXPECT((side.work.status() & VIP_STATUS_ERROR_MASK) == VIP_STATUS_FORMAT_ERROR);
    EXPECT_EQ(VIP_STATE_CONNECTED + 0, side.vi.state() + 0);
    side.send({8});
    EXPECT(sent(side.vi) == side.work.desc);
    EXPECT(peer.take_send() == Bytes{8});
}

} // namespace foreign

#endif
