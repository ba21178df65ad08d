// SPDX-License-Identifier: MIT
//
// The ends of connections: VipDisconnect from each state, what it flushes and what it delivers
// first, what the other side sees, and peers that die without a word.
#include <vector>

#include "connect_roles.hpp"
#include "support/error_log.hpp"

using namespace vipl_conformance;

TWO_ROLE_CASE_EACH_LEVEL("VipDisconnect makes the local VI idle and breaks the remote one",
                         "[VipDisconnect][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        end.vi.await(VIP_STATE_ERROR);
        REQUIRE_VIP(VipDisconnect(end.vi));
        EXPECT_EQ(VIP_STATE_IDLE, end.vi.state());
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        REQUIRE_VIP(VipDisconnect(end.vi));
        EXPECT_EQ(VIP_STATE_IDLE, end.vi.state());
    },
};

TWO_ROLE_CASE_EACH_LEVEL("VipDisconnect reports VIP_ERROR_CONN_LOST once, to the remote side only",
                         "[VipDisconnect][functional]") = {
    [](Peer &peer) {
        ErrorLog errors(peer.nic());
        Endpoint end(peer);
        end.connect();
        peer.sync();
        errors.expect(end.vi, VIP_ERROR_CONN_LOST);
        REQUIRE_VIP(VipDisconnect(end.vi));
        errors.expect_none();
    },
    [](Peer &peer) {
        ErrorLog errors(peer.nic());
        Endpoint end(peer);
        end.connect();
        peer.sync();
        REQUIRE_VIP(VipDisconnect(end.vi));
        errors.expect_none();
    },
};

TWO_ROLE_CASE("VipDisconnect flushes the local queues in order", "[VipDisconnect][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        const Work first = end.receive(10), second = end.receive(20), third = end.receive(30);
        end.connect();
        peer.sync();
        REQUIRE_VIP(VipDisconnect(end.vi));
        for (const Work *work : {&first, &second, &third}) {
            VIP_DESCRIPTOR *done = nullptr;
            REQUIRE_RC(VIP_DESCRIPTOR_ERROR, VipRecvDone(end.vi, &done));
            EXPECT(done == work->desc);
            EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, done);
        }
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(end.vi, &done));
        EXPECT(done == nullptr);
        peer.sync();
    },
};

TWO_ROLE_CASE_EACH_LEVEL("VipDisconnect flushes the remote queues in order", "[VipDisconnect][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work first = end.receive(10), second = end.receive(20), third = end.receive(30);
        end.connect();
        peer.sync();
        for (const Work *work : {&first, &second, &third}) {
            EXPECT(receive_failed(end.vi) == work->desc);
            EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, work->desc);
        }
        EXPECT_EQ(VIP_STATE_ERROR, end.vi.state());
        EXPECT(end.vi.recv_queue_empty());
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        REQUIRE_VIP(VipDisconnect(end.vi));
    },
};

TWO_ROLE_CASE_RELIABLE("VipDisconnect delivers what was sent before on a reliable VI",
                       "[VipDisconnect][full]") = {
    [](Peer &peer) {
        constexpr unsigned count = 50;
        Endpoint end(peer);
        std::vector<Work> receives;
        for (unsigned i = 0; i < count; ++i) {
            receives.push_back(end.receive(1000));
        }
        const Work unused = end.receive(1000);
        end.connect();
        peer.sync(); // the client has disconnected
        for (unsigned i = 0; i < count; ++i) {
            EXPECT(received(end.vi) == receives[i].desc);
            EXPECT(receives[i].buffer.holds(i));
        }
        EXPECT(receive_failed(end.vi) == unused.desc);
        EXPECT_EQ(VIP_STATE_ERROR, end.vi.state());
    },
    [](Peer &peer) {
        constexpr unsigned count = 50;
        Endpoint end(peer);
        end.connect();
        for (unsigned i = 0; i < count; ++i) {
            const Span bytes = end.memory.bytes(1000);
            bytes.fill(i);
            end.send(bytes);
        }
        REQUIRE_VIP(VipDisconnect(end.vi));
        peer.sync();
    },
};

TWO_ROLE_CASE("VipDisconnect succeeds when the peer has gone", "[VipDisconnect][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        REQUIRE_VIP(VipDisconnect(end.vi)); // whether or not the loss has been noticed yet
        REQUIRE_VIP(VipDisconnect(end.vi));
        EXPECT_EQ(VIP_STATE_IDLE, end.vi.state());
        REQUIRE_VIP(VipDestroyVi(end.vi));
    },
    [](Peer &peer) {
        {
            Endpoint end(peer);
            end.connect();
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("VipDisconnect from both sides at once leaves both idle", "[VipDisconnect][early]") = {
    [](Peer &peer) {
        for (int i = 0; i < 20; ++i) {
            Endpoint end(peer);
            end.connect();
            peer.sync();
            REQUIRE_VIP(VipDisconnect(end.vi));
            EXPECT_EQ(VIP_STATE_IDLE, end.vi.state());
        }
    },
    [](Peer &peer) {
        for (int i = 0; i < 20; ++i) {
            Endpoint end(peer);
            end.connect();
            peer.sync();
            REQUIRE_VIP(VipDisconnect(end.vi));
            EXPECT_EQ(VIP_STATE_IDLE, end.vi.state());
        }
    },
};

TWO_ROLE_CASE_ONE_NIC("VipDisconnect leaves VIs that connect again", "[VipDisconnect][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        for (unsigned i = 0; i < 10; ++i) {
            const Work receive = end.receive(100);
            end.connect();
            EXPECT(received(end.vi) == receive.desc);
            EXPECT(receive.buffer.holds(i));
            peer.sync();
            REQUIRE_VIP(VipDisconnect(end.vi));
            peer.sync();
        }
    },
    [](Peer &peer) {
        Endpoint end(peer);
        for (unsigned i = 0; i < 10; ++i) {
            end.connect();
            const Span bytes = end.memory.bytes(100);
            bytes.fill(i);
            end.send(bytes);
            sent(end.vi);
            peer.sync();
            peer.sync(); // the server's disconnect has broken this VI
            REQUIRE_VIP(VipDisconnect(end.vi));
        }
    },
};

TWO_ROLE_CASE("VipDisconnect wakes a blocked VipRecvWait with the flushed receive",
              "[VipDisconnect][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work receive = end.receive(10);
        end.connect();
        peer.sync();
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_RC(VIP_DESCRIPTOR_ERROR, VipRecvWait(end.vi, VIP_INFINITE, &done));
        EXPECT(done == receive.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, done);
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        let_a_moment_pass();
        REQUIRE_VIP(VipDisconnect(end.vi));
    },
};

TEST_CASE("VipDisconnect ends a pending symmetric connect", "[VipDisconnect][functional]")
{
    const Nic nic;
    Memory memory(nic);
    const Vi vi(nic);
    const Work receive = memory.transfer(memory.bytes(10));
    post_recv(vi, receive);
    NetAddress local = nic.address(unique_discriminator()), remote = nic.address(unique_discriminator());
    REQUIRE_VIP(VipConnectPeerRequest(vi, local, remote, VIP_INFINITE));
    REQUIRE_VIP(VipDisconnect(vi));
    EXPECT_EQ(VIP_STATE_IDLE, vi.state());
    REQUIRE_RC(VIP_INVALID_STATE, VipConnectPeerDone(vi, nullptr));
    EXPECT(receive_failed(vi) == receive.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, receive.desc);
}

TWO_PROCESS_CASE("a peer process that dies breaks the VI with VIP_ERROR_CONN_LOST",
                 "[VipErrorCallback][functional]") = {
    [](Peer &peer) {
        ErrorLog errors(peer.nic());
        Endpoint end(peer);
        const Work first = end.receive(10), second = end.receive(10);
        end.connect();
        peer.sync();
        errors.expect(end.vi, VIP_ERROR_CONN_LOST);
        EXPECT(receive_failed(end.vi) == first.desc);
        EXPECT(receive_failed(end.vi) == second.desc);
        EXPECT_EQ(VIP_STATE_ERROR, end.vi.state());
        REQUIRE_VIP(VipDisconnect(end.vi));
        errors.expect_none();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        peer.die();
    },
};

TWO_PROCESS_CASE("a peer process that dies wakes a blocked VipRecvWait", "[VipRecvWait][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work receive = end.receive(10);
        end.connect();
        peer.sync();
        EXPECT(receive_failed(end.vi) == receive.desc); // within the patience, blocked
        EXPECT_EQ(VIP_STATE_ERROR, end.vi.state());
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        let_a_moment_pass();
        peer.die();
    },
};
