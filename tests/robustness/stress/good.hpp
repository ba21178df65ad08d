// SPDX-License-Identifier: MIT
//
// The good, whom attacks on others must not touch: a client that sends numbered messages and checks
// what comes back, and its server.
#ifndef VIPL_STRESS_GOOD_HPP
#define VIPL_STRESS_GOOD_HPP

#include "stress.hpp"

namespace stress {

struct Peers {
    explicit Peers(const Nic &nic) : memory(nic, 64 * 1024), vi(nic)
    {
        out = memory.transfer(memory.bytes(1000));
        in = memory.transfer(memory.bytes(1000));
        post_recv(vi, in);
    }
    Memory memory;
    Vi vi;
    Work out, in;
};

/** Send and expect the same back, once. */
inline void ping(Peers &peers, unsigned number)
{
    peers.out.buffer.fill(number);
    post_send(peers.vi, peers.out);
    EXPECT(received(peers.vi) == peers.in.desc);
    EXPECT(peers.in.buffer.holds(number));
    post_recv(peers.vi, peers.in);
    EXPECT(sent(peers.vi) == peers.out.desc);
}

/** A role: messages until told to end ('E'); otherwise ('C') another connection, and how long it
 * took. */
inline void be_good(const Scene &scene, Line &line)
{
    const Nic nic;
    Peers peers(nic);
    REQUIRE_VIP(request_to(nic, scene.name(), peers.vi));
    unsigned number = 0;
    pollfd order = {line.fd(), POLLIN, 0};
    for (;;) {
        ping(peers, number++);
        if (poll(&order, 1, 0) == 1) {
            if (line.receive<char>() == 'E') {
                line.send(number);
                return;
            }
            const unsigned long long start = now_ms();
            const Vi another(nic);
            REQUIRE_VIP(request_to(nic, scene.name(), another));
            line.send(static_cast<unsigned>(now_ms() - start));
        }
    }
}

/** The other side of ping(), until the client leaves. */
inline void echo(Peers &peers)
{
    for (;;) {
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipRecvWait(peers.vi, patience(), &done);
        if (rc == VIP_DESCRIPTOR_ERROR) {
            return; // the good client has left
        }
        EXPECT_EQ(VIP_SUCCESS, rc);
        std::memcpy(peers.out.buffer.data, peers.in.buffer.data, peers.out.buffer.size);
        post_recv(peers.vi, peers.in);
        post_send(peers.vi, peers.out);
        EXPECT(sent(peers.vi) == peers.out.desc);
    }
}

} // namespace stress

#endif
