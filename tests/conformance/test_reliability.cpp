// SPDX-License-Identifier: MIT
//
// What a send's success means at each reliability level, and that the reliable levels deliver
// everything once, in order and intact.
#include <cstring>
#include <vector>

#include "support/role_case.hpp"

using namespace vipl_test;

TWO_ROLE_CASE_AT(VIP_SERVICE_RELIABLE_RECEPTION,
                 "at Reliable Reception a send's success means the data is in the remote memory",
                 "[VipSendWait][full]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work in = end.receive(5000);
        end.connect();
        peer.sync(); // the client's send has succeeded; nothing was asked of this side since
        if (!peer.in_other_process()) { // else what a library thread wrote is seen only after a call
            EXPECT(in.buffer.holds(4));
        }
        EXPECT(received(end.vi) ==
               in.desc); // Status may be written only now: a device of its own does not write there
        EXPECT(in.buffer.holds(4));
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        const Span bytes = end.memory.bytes(5000);
        bytes.fill(4);
        end.connect();
        end.send(bytes);
        sent(end.vi);
        peer.sync();
        peer.sync();
    },
};

TWO_ROLE_CASE_AT(VIP_SERVICE_RELIABLE_RECEPTION,
                 "at Reliable Reception an RDMA Write's success means the data is in the remote memory",
                 "[VipSendWait][full]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Span target = end.memory.bytes(5000);
        end.connect();
        peer.send(target.remote());
        peer.sync();
        target.poll_last();
        EXPECT(target.holds(4));
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        const Span bytes = end.memory.bytes(5000);
        bytes.fill(4);
        end.connect();
        post_send(end.vi, end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, peer.receive<RemoteSpan>(), bytes));
        sent(end.vi);
        peer.sync();
        peer.sync();
    },
};

TWO_ROLE_CASE_EACH_LEVEL("a send's success means its buffer may be written again", "[VipSendWait][full]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        std::vector<Work> works;
        for (unsigned i = 0; i < 100; ++i) {
            works.push_back(end.receive(2000));
        }
        end.connect();
        for (unsigned i = 0; i < 100; ++i) {
            EXPECT(received(end.vi) == works[i].desc);
            EXPECT(works[i].buffer.holds(i));
        }
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        const Span bytes = end.memory.bytes(2000);
        const Work out = end.memory.transfer(bytes);
        end.connect();
        for (unsigned i = 0; i < 100; ++i) {
            bytes.fill(i);
            post_send(end.vi, out);
            EXPECT(sent(end.vi) == out.desc);
            std::memset(bytes.data, 0, bytes.size);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE_RELIABLE("2000 messages of changing size arrive once, in order and intact",
                       "[VipPostSend][full]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        constexpr unsigned window = 32, count = 2016 - 1;
        std::vector<Work> works;
        for (unsigned i = 0; i < window; ++i) {
            works.push_back(end.receive(3000));
        }
        end.connect();
        for (unsigned i = 0; i < count; ++i) {
            const Work &work = works[i % window];
            EXPECT(received(end.vi) == work.desc);
            const VIP_UINT32 size = (i * 7919) % 3000;
            EXPECT_EQ(size, work.desc->CS.Length);
            EXPECT(work.buffer.part(0, size).holds(i));
            work.desc->CS.Length = 3000;
            post_recv(end.vi, work);
            if ((i + 1) % window == 0) {
                peer.send(i); // credit: the whole window is posted again
            }
        }
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        constexpr unsigned window = 32, count = 2016 - 1;
        const Span bytes = end.memory.bytes(3000);
        const Work out = end.memory.work();
        end.connect();
        for (unsigned i = 0; i < count; ++i) {
            if (i > 0 && i % window == 0) {
                peer.receive<unsigned>();
            }
            const Span part = bytes.part(0, (i * 7919) % 3000);
            part.fill(i);
            out.desc->CS = {};
            Work again = out;
            post_send(end.vi, again.local(part));
            EXPECT(sent(end.vi) == out.desc);
        }
        peer.sync();
    },
};
