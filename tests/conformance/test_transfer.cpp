// SPDX-License-Identifier: MIT
//
// Send and receive between two VIs: sizes, segments, byte offsets, immediate data, order, both
// directions, at every reliability level. The queue calls themselves are in test_queues.cpp.
#include <algorithm>
#include <cstring>
#include <vector>

#include "support/role_case.hpp"

using namespace vipl_test;

TWO_ROLE_CASE_EACH_LEVEL("VipPostSend lands in the oldest posted receive", "[VipPostSend][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work first = end.receive(16), second = end.receive(16);
        end.connect();
        EXPECT(received(end.vi) == first.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, first.desc);
        EXPECT_EQ(5u, first.desc->CS.Length);
        EXPECT_EQ(std::string("hello"), first.buffer.part(0, 5).text());
        EXPECT(first.buffer.part(5, 11).all(0));
        EXPECT(second.buffer.all(0));
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        const Work out = end.send("hello");
        EXPECT(sent(end.vi) == out.desc);
        EXPECT_STATUS(VIP_STATUS_OP_SEND, out.desc);
        EXPECT_EQ(5u, out.desc->CS.Length);
        peer.sync();
    },
};

namespace {

constexpr VIP_UINT32 kSizes[] = {0,    1,    2,    3,     4,     7,     8,     15,    16,   31,
                                 32,   63,   64,   65,    127,   128,   255,   256,   257,  511,
                                 512,  1000, 1023, 1024,  1025,  2047,  2048,  4095,  4096, 4097,
                                 8191, 8192, 8193, 16384, 16385, 32767, 32768, 65535, 65536};

void receive_every_size(Peer &peer)
{
    Endpoint end(peer);
    const Span buffer = end.memory.bytes(65536 + 64);
    const Work work = end.memory.work();
    end.connect();
    unsigned seed = 0;
    for (const VIP_UINT32 size : kSizes) {
        std::memset(buffer.data, 0xEE, buffer.size);
        work.desc->CS = {};
        Work again = work;
        again.local(buffer.part(0, size));
        post_recv(end.vi, again);
        peer.sync();
        EXPECT(received(end.vi) == work.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, work.desc);
        EXPECT_EQ(size, work.desc->CS.Length);
        EXPECT(buffer.part(0, size).holds(++seed));
        EXPECT(buffer.part(size, 64).all(0xEE)); // nothing beyond
    }
    peer.sync();
}

void send_every_size(Peer &peer)
{
    Endpoint end(peer);
    const Span buffer = end.memory.bytes(65536);
    const Work work = end.memory.work();
    end.connect();
    unsigned seed = 0;
    for (const VIP_UINT32 size : kSizes) {
        buffer.part(0, size).fill(++seed);
        work.desc->CS = {};
        Work again = work;
        again.local(buffer.part(0, size));
        peer.sync();
        post_send(end.vi, again);
        EXPECT(sent(end.vi) == work.desc);
        EXPECT_EQ(size, work.desc->CS.Length);
        EXPECT(buffer.part(0, size).holds(seed));
    }
    peer.sync();
}

} // namespace

TWO_ROLE_CASE_EACH_LEVEL("VipPostSend moves messages of every size, and not a byte more",
                         "[VipPostSend][early]") = {receive_every_size, send_every_size};

TWO_ROLE_CASE_EACH_LEVEL("VipPostSend moves a message of MaxTransferSize", "[VipPostSend][early]") = {
    [](Peer &peer) {
        const VIP_ULONG size = std::min<VIP_ULONG>(peer.nic().attributes().MaxTransferSize, 1024 * 1024);
        Endpoint end(peer, vi_attributes(peer.level(), size), size + 4096);
        const Work in = end.receive(size);
        end.connect();
        EXPECT(received(end.vi) == in.desc);
        EXPECT_EQ(static_cast<VIP_UINT32>(size), in.desc->CS.Length);
        EXPECT(in.buffer.holds(3));
        peer.sync();
    },
    [](Peer &peer) {
        const VIP_ULONG size = std::min<VIP_ULONG>(peer.nic().attributes().MaxTransferSize, 1024 * 1024);
        Endpoint end(peer, vi_attributes(peer.level(), size), size + 4096);
        const Span bytes = end.memory.bytes(size);
        bytes.fill(3);
        end.connect();
        end.send(bytes);
        sent(end.vi);
        peer.sync();
    },
};

TWO_ROLE_CASE("VipPostSend moves data between any two byte offsets", "[VipPostSend][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        std::vector<Work> works;
        for (unsigned offset = 0; offset < 64; ++offset) {
            works.push_back(end.memory.transfer(end.memory.bytes(133, (offset * 7) % 64)));
            post_recv(end.vi, works.back());
        }
        end.connect();
        for (unsigned offset = 0; offset < 64; ++offset) {
            EXPECT(received(end.vi) == works[offset].desc);
            EXPECT(works[offset].buffer.holds(offset));
        }
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        for (unsigned offset = 0; offset < 64; ++offset) {
            const Span bytes = end.memory.bytes(133, offset);
            bytes.fill(offset);
            end.send(bytes);
            sent(end.vi);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE_EACH_LEVEL("VipPostSend with no segments is an empty message", "[VipPostSend][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work none = end.memory.work(), some = end.memory.transfer(end.memory.bytes(8));
        post_recv(end.vi, none);
        post_recv(end.vi, some);
        end.connect();
        EXPECT(received(end.vi) == none.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, none.desc);
        EXPECT_EQ(0u, none.desc->CS.Length);
        EXPECT(received(end.vi) == some.desc);
        EXPECT_EQ(0u, some.desc->CS.Length);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        for (int i = 0; i < 2; ++i) {
            const Work out = end.memory.work();
            post_send(end.vi, out);
            EXPECT(sent(end.vi) == out.desc);
            EXPECT_STATUS(VIP_STATUS_OP_SEND, out.desc);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("VipPostSend and VipPostRecv take segments of no bytes anywhere", "[VipPostSend][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        Work in = end.memory.work(5);
        const Span bytes = end.memory.bytes(10);
        in.local(bytes.part(0, 0))
            .local(bytes.part(0, 4))
            .local(bytes.part(4, 0))
            .local(bytes.part(4, 6))
            .local(bytes.part(10, 0));
        post_recv(end.vi, in);
        end.connect();
        EXPECT(received(end.vi) == in.desc);
        EXPECT_EQ(std::string("0123456789"), bytes.text());
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        Work out = end.memory.work(4);
        const Span bytes = end.memory.text("0123456789");
        out.local(bytes.part(0, 0)).local(bytes.part(0, 7)).local(bytes.part(7, 0)).local(bytes.part(7, 3));
        post_send(end.vi, out);
        EXPECT(sent(end.vi) == out.desc);
        EXPECT_EQ(10u, out.desc->CS.Length);
        peer.sync();
    },
};

TWO_ROLE_CASE_EACH_LEVEL("VipPostSend gathers 252 segments and VipPostRecv scatters to 252",
                         "[VipPostSend][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        Work in = end.memory.work(252);
        Span bytes = end.memory.bytes(252 * 11, 3);
        for (VIP_UINT32 i = 0; i < 252; ++i) {
            in.local(bytes.part(i * 11, 11));
        }
        post_recv(end.vi, in);
        end.connect();
        EXPECT(received(end.vi) == in.desc);
        EXPECT_EQ(252u * 10, in.desc->CS.Length);
        EXPECT(bytes.part(0, 252 * 10).holds(9));
        EXPECT(bytes.part(252 * 10, 252).all(0));
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        Work out = end.memory.work(252);
        Span bytes = end.memory.bytes(252 * 10, 1);
        bytes.fill(9);
        for (VIP_UINT32 i = 0; i < 252; ++i) {
            out.local(bytes.part(i * 10, 10));
        }
        end.connect();
        post_send(end.vi, out);
        EXPECT(sent(end.vi) == out.desc);
        EXPECT_STATUS(VIP_STATUS_OP_SEND, out.desc);
        peer.sync();
    },
};

namespace {

constexpr VIP_UINT32 kLarge = 200003;
constexpr unsigned kLargeOnes = 5;

Endpoint large_endpoint(Peer &peer)
{
    return Endpoint(peer, vi_attributes(peer.level(), kLarge + 1), kLargeOnes * (kLarge + 512));
}

/** Bytes as three segments, cut where that message has its cuts. */
Work in_pieces(Memory &memory, Span bytes, unsigned message, VIP_UINT32 first)
{
    Work work = memory.work(3);
    const VIP_UINT32 second = 1 + message * 20011;
    work.local(bytes.part(0, first)).local(bytes.part(first, second));
    work.local(bytes.part(first + second, bytes.size - first - second));
    return work;
}

} // namespace

TWO_ROLE_CASE_EACH_LEVEL("VipPostSend gathers, and VipPostRecv scatters, large odd pieces of many messages",
                         "[VipPostSend][early]") = {
    [](Peer &peer) {
        Endpoint end = large_endpoint(peer);
        std::vector<Span> bytes;
        for (unsigned i = 0; i < kLargeOnes; ++i) {
            bytes.push_back(end.memory.bytes(kLarge + 1, i));
            post_recv(end.vi, in_pieces(end.memory, bytes[i], i, 7 + i * 8192));
        }
        end.connect();
        for (unsigned i = 0; i < kLargeOnes; ++i) {
            EXPECT_EQ(kLarge - i, received(end.vi)->CS.Length);
            EXPECT(bytes[i].part(0, kLarge - i).holds(i + 1));
            EXPECT(bytes[i].part(kLarge - i, i + 1).all(0));
        }
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end = large_endpoint(peer);
        std::vector<Work> works;
        for (unsigned i = 0; i < kLargeOnes; ++i) {
            const Span bytes = end.memory.bytes(kLarge - i, i * 3);
            bytes.fill(i + 1);
            works.push_back(in_pieces(end.memory, bytes, kLargeOnes - i, 60001));
        }
        end.connect();
        for (const Work &work : works) {
            post_send(end.vi, work);
        }
        for (const Work &work : works) {
            EXPECT(sent(end.vi) == work.desc);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("VipPostSend gathers from several regions", "[VipPostSend][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        Memory one(peer.nic(), 64), two(peer.nic(), 64);
        Work in = end.memory.work(2);
        in.local(one.bytes(3, 5)).local(two.bytes(60, 1));
        post_recv(end.vi, in);
        end.connect();
        EXPECT(received(end.vi) == in.desc);
        EXPECT_EQ(std::string("onl"), std::string(reinterpret_cast<char *>(one.data()) + 5, 3));
        EXPECT_EQ(std::string("y gathered"), std::string(reinterpret_cast<char *>(two.data()) + 1, 10));
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        Memory one(peer.nic(), 64), two(peer.nic(), 64);
        Work out = end.memory.work(2);
        out.local(one.text("only ga")).local(two.text("thered"));
        end.connect();
        post_send(end.vi, out);
        sent(end.vi);
        peer.sync();
    },
};

TWO_ROLE_CASE_EACH_LEVEL("VipPostSend carries immediate data with a message", "[VipPostSend][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work in = end.receive(8);
        end.connect();
        EXPECT(received(end.vi) == in.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE, in.desc);
        EXPECT_EQ(0x01020304u, in.desc->CS.ImmediateData);
        EXPECT_EQ(std::string("data"), in.buffer.part(0, 4).text());
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        Work out = end.memory.transfer(end.memory.text("data"));
        post_send(end.vi, out.immediate(0x01020304));
        EXPECT(sent(end.vi) == out.desc);
        EXPECT_EQ(0x01020304u, out.desc->CS.ImmediateData);
        peer.sync();
    },
};

TWO_ROLE_CASE_EACH_LEVEL("VipPostSend carries immediate data alone", "[VipPostSend][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        std::vector<Work> works;
        for (int i = 0; i < 4; ++i) {
            works.push_back(end.memory.work());
            post_recv(end.vi, works.back());
        }
        end.connect();
        for (const VIP_UINT32 value : {0u, 1u, 0x80000000u, 0xFFFFFFFFu}) {
            VIP_DESCRIPTOR *done = received(end.vi);
            EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE, done);
            EXPECT_EQ(value, done->CS.ImmediateData);
            EXPECT_EQ(0u, done->CS.Length);
        }
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        for (const VIP_UINT32 value : {0u, 1u, 0x80000000u, 0xFFFFFFFFu}) {
            Work out = end.memory.work();
            post_send(end.vi, out.immediate(value));
            sent(end.vi);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE_EACH_LEVEL("sends complete in posting order and fill receives in posting order",
                         "[VipPostSend][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        std::vector<Work> works;
        for (unsigned i = 0; i < 200; ++i) {
            works.push_back(end.receive(i));
        }
        end.connect();
        for (unsigned i = 0; i < 200; ++i) {
            EXPECT(received(end.vi) == works[i].desc);
            EXPECT_EQ(i, works[i].desc->CS.Length);
            EXPECT(works[i].buffer.holds(i));
        }
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        std::vector<Work> works;
        for (unsigned i = 0; i < 200; ++i) {
            const Span bytes = end.memory.bytes(i);
            bytes.fill(i);
            works.push_back(end.send(bytes));
        }
        for (unsigned i = 0; i < 200; ++i) {
            EXPECT(sent(end.vi) == works[i].desc);
        }
        peer.sync();
    },
};

namespace {

void ping_pong(Peer &peer)
{
    Endpoint end(peer);
    const Work in = end.receive(64);
    const Span bytes = end.memory.bytes(64);
    const Work out = end.memory.transfer(bytes);
    end.connect();
    for (unsigned round = 0; round < 200; ++round) {
        if (!peer.is_server() || round > 0) {
            bytes.fill(round);
            post_send(end.vi, out);
            EXPECT(sent(end.vi) == out.desc);
        }
        EXPECT(received(end.vi) == in.desc);
        EXPECT(in.buffer.holds(peer.is_server() ? round : round + 1));
        if (round < 199) {
            post_recv(end.vi, in);
        }
    }
    if (peer.is_server()) {
        bytes.fill(200);
        post_send(end.vi, out);
        EXPECT(sent(end.vi) == out.desc);
    }
    peer.sync();
}

void full_duplex(Peer &peer)
{
    constexpr unsigned count = 100;
    Endpoint end(peer);
    std::vector<Work> in, out;
    for (unsigned i = 0; i < count; ++i) {
        in.push_back(end.receive(500));
    }
    end.connect();
    for (unsigned i = 0; i < count; ++i) {
        const Span bytes = end.memory.bytes(500);
        bytes.fill(i);
        out.push_back(end.send(bytes));
    }
    for (unsigned i = 0; i < count; ++i) {
        EXPECT(received(end.vi) == in[i].desc);
        EXPECT(in[i].buffer.holds(i));
        EXPECT(sent(end.vi) == out[i].desc);
    }
    peer.sync();
}

} // namespace

TWO_ROLE_CASE_EACH_LEVEL("two VIs answer each other 200 times", "[VipRecvWait][early]") = {ping_pong,
                                                                                           ping_pong};

TWO_ROLE_CASE_EACH_LEVEL("both VIs send at once", "[VipPostSend][early]") = {full_duplex, full_duplex};

TWO_ROLE_CASE_ONE_NIC("several connections between the same ends keep their data apart",
                      "[VipPostSend][early]") = {
    [](Peer &peer) {
        Endpoint one(peer), two(peer), three(peer);
        for (Endpoint *end : {&one, &two, &three}) {
            end->connect();
        }
        std::vector<Work> works;
        for (Endpoint *end : {&one, &two, &three}) {
            works.push_back(end->receive(3));
        }
        peer.sync();
        EXPECT(received(three.vi) == works[2].desc);
        EXPECT(received(one.vi) == works[0].desc);
        EXPECT(received(two.vi) == works[1].desc);
        EXPECT_EQ(std::string("onetwotri"),
                  works[0].buffer.text() + works[1].buffer.text() + works[2].buffer.text());
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint one(peer), two(peer), three(peer);
        for (Endpoint *end : {&one, &two, &three}) {
            end->connect();
        }
        peer.sync();
        two.send("two");
        three.send("tri");
        one.send("one");
        for (Endpoint *end : {&one, &two, &three}) {
            sent(end->vi);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("receives posted before the connection wait for it", "[VipPostRecv][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work idle = end.receive(4);
        NetAddress local = peer.server_address(), remote = peer.client_address();
        REQUIRE_VIP(VipConnectPeerRequest(end.vi, local, remote, patience()));
        const Work pending = end.receive(4);
        peer.sync();
        REQUIRE_VIP(VipConnectPeerWait(end.vi, nullptr));
        const Work connected = end.receive(4);
        peer.sync();
        for (const Work *work : {&idle, &pending, &connected}) {
            EXPECT(received(end.vi) == work->desc);
        }
        EXPECT_EQ(std::string("1st 2nd 3rd "),
                  idle.buffer.text() + pending.buffer.text() + connected.buffer.text());
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        peer.sync();
        NetAddress local = peer.client_address(), remote = peer.server_address();
        REQUIRE_VIP(VipConnectPeerRequest(end.vi, local, remote, patience()));
        REQUIRE_VIP(VipConnectPeerWait(end.vi, nullptr));
        peer.sync();
        for (const char *text : {"1st ", "2nd ", "3rd "}) {
            end.send(text);
            sent(end.vi);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("VipPostSend may use descriptors and data of different regions", "[VipPostSend][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        Memory descriptors(peer.nic(), 4096);
        const Work in = descriptors.transfer(end.memory.bytes(5));
        post_recv(end.vi, in);
        end.connect();
        EXPECT(received(end.vi) == in.desc);
        EXPECT_EQ(std::string("apart"), in.buffer.text());
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        Memory descriptors(peer.nic(), 4096);
        const Work out = descriptors.transfer(end.memory.text("apart"));
        end.connect();
        post_send(end.vi, out);
        EXPECT(sent(end.vi) == out.desc);
        peer.sync();
    },
};
