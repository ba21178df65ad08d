// SPDX-License-Identifier: MIT
//
// The calls that reap a VI's two queues: Done and Wait, their timeouts, order and out-pointers,
// full queues, and what a post may and may not change in a descriptor.
#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "support/role_case.hpp"

using namespace vipl_test;

TWO_ROLE_CASE("VipRecvDone is VIP_NOT_DONE until the message is there", "[VipRecvDone][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work in = end.receive(4);
        end.connect();
        VIP_DESCRIPTOR *done = in.desc;
        REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(end.vi, &done));
        EXPECT(done == nullptr);
        EXPECT_EQ(0u, in.poll() & VIP_STATUS_DONE);
        peer.sync();
        VIP_RETURN rc = VIP_NOT_DONE;
        for (const unsigned long long stop = now_ms() + patience(); rc == VIP_NOT_DONE && now_ms() < stop;) {
            rc = VipRecvDone(end.vi, &done);
        }
        REQUIRE_VIP(rc);
        EXPECT(done == in.desc);
        REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(end.vi, &done));
        EXPECT(done == nullptr);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        end.send("ping");
        sent(end.vi);
        peer.sync();
    },
};

TWO_ROLE_CASE("VipSendDone reaps a send once", "[VipSendDone][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.receive(4);
        end.connect();
        received(end.vi);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        const Work out = end.send("ping");
        VIP_DESCRIPTOR *done = nullptr;
        VIP_RETURN rc = VIP_NOT_DONE;
        for (const unsigned long long stop = now_ms() + patience(); rc == VIP_NOT_DONE && now_ms() < stop;) {
            rc = VipSendDone(end.vi, &done);
        }
        REQUIRE_VIP(rc);
        EXPECT(done == out.desc);
        REQUIRE_RC(VIP_NOT_DONE, VipSendDone(end.vi, &done));
        EXPECT(done == nullptr);
        peer.sync();
    },
};

TWO_ROLE_CASE("a program may poll a receive's Status until it is done", "[VipRecvDone][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work in = end.receive(4);
        end.connect();
        peer.sync();
        const unsigned long long stop = now_ms() + patience();
        VIP_DESCRIPTOR *done = nullptr;
        while ((in.poll() & VIP_STATUS_DONE) == 0 && now_ms() < stop) {
            // Progress belongs to whoever calls in: any call will do.
            EXPECT_EQ(VIP_STATE_CONNECTED, end.vi.state());
        }
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, in.desc);
        EXPECT_EQ(std::string("ping"), in.buffer.text());
        REQUIRE_VIP(VipRecvDone(end.vi, &done));
        EXPECT(done == in.desc);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        end.send("ping");
        sent(end.vi);
        peer.sync();
    },
};

TEST_CASE("VipRecvWait and VipSendWait time out after their time, not before", "[VipRecvWait][early]")
{
    ConnectedPair pair;
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(8));
    post_recv(pair.server, in);
    VIP_DESCRIPTOR *done = in.desc;
    REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(pair.server, 0, &done));
    EXPECT(done == nullptr);
    unsigned long long start = now_ms();
    REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(pair.server, kMoment, &done));
    EXPECT(now_ms() - start + 1 >= kMoment);
    start = now_ms();
    done = in.desc;
    REQUIRE_RC(VIP_TIMEOUT, VipSendWait(pair.client, kMoment, &done));
    EXPECT(now_ms() - start + 1 >= kMoment);
    EXPECT(done == nullptr);
    EXPECT(!pair.server.recv_queue_empty()); // the receive is still posted
}

TWO_ROLE_CASE("VipRecvWait with an infinite timeout, of 32 bits too, waits for the message",
              "[VipRecvWait][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work first = end.receive(1), second = end.receive(1);
        end.connect();
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipRecvWait(end.vi, VIP_INFINITE, &done));
        EXPECT(done == first.desc);
        peer.sync();
        REQUIRE_VIP(VipRecvWait(end.vi, 0xFFFFFFFFu, &done));
        EXPECT(done == second.desc);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        let_a_moment_pass();
        end.send("1");
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipSendWait(end.vi, VIP_INFINITE, &done));
        peer.sync();
        let_a_moment_pass();
        end.send("2");
        REQUIRE_VIP(VipSendWait(end.vi, 0xFFFFFFFFu, &done));
        peer.sync();
    },
};

TWO_ROLE_CASE("VipRecvWait wakes for a message that comes while it is blocked", "[VipRecvWait][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        for (int i = 0; i < 50; ++i) {
            const Work in = end.receive(8);
            peer.sync();
            EXPECT(received(end.vi) == in.desc);
        }
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        for (int i = 0; i < 50; ++i) {
            peer.sync();
            end.send("wake up!");
            sent(end.vi);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("a thread may wait on each queue of a VI at once", "[VipSendWait][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work in = end.receive(4);
        end.connect();
        VIP_DESCRIPTOR *got = nullptr;
        VIP_RETURN rc = VIP_NOT_DONE;
        std::thread receiver([&] { rc = VipRecvWait(end.vi, patience(), &got); });
        const Work out = end.send("pong");
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN sent_rc = VipSendWait(end.vi, patience(), &done);
        receiver.join();
        REQUIRE_VIP(sent_rc);
        REQUIRE_VIP(rc);
        EXPECT(done == out.desc);
        EXPECT(got == in.desc);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.receive(4);
        end.connect();
        received(end.vi);
        end.send("ping");
        sent(end.vi);
        peer.sync();
    },
};

TWO_ROLE_CASE("VipRecvWait of several threads on one VI gives each message to one", "[VipRecvWait][full]") = {
    [](Peer &peer) {
        constexpr unsigned count = 40;
        Endpoint end(peer);
        std::vector<Work> works;
        for (unsigned i = 0; i < count; ++i) {
            works.push_back(end.receive(4));
        }
        end.connect();
        std::vector<VIP_DESCRIPTOR *> got[4];
        std::vector<std::thread> threads;
        for (auto &mine : got) {
            threads.emplace_back([&end, &mine] {
                for (unsigned i = 0; i < count / 4; ++i) {
                    VIP_DESCRIPTOR *done = nullptr;
                    if (VipRecvWait(end.vi, patience(), &done) == VIP_SUCCESS) {
                        mine.push_back(done);
                    }
                }
            });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
        for (const Work &work : works) {
            long times = 0;
            for (const auto &mine : got) {
                times += std::count(mine.begin(), mine.end(), work.desc);
            }
            EXPECT_EQ(1l, times);
        }
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        for (int i = 0; i < 40; ++i) {
            end.send("work");
            sent(end.vi);
        }
        peer.sync();
    },
};

TEST_CASE("VipPostRecv beyond MaxDescriptorsPerQueue is VIP_ERROR_RESOURCE", "[VipPostRecv][full]")
{
    const Nic nic;
    const VIP_ULONG most = nic.attributes().MaxDescriptorsPerQueue;
    if (most > 200000) {
        throw NotApplicable("MaxDescriptorsPerQueue is too large to use up");
    }
    Memory memory(nic, (most + 1) * sizeof(VIP_DESCRIPTOR));
    const Vi vi(nic);
    for (VIP_ULONG i = 0; i < most; ++i) {
        post_recv(vi, memory.work());
    }
    const Work surplus = memory.work();
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipPostRecv(vi, surplus.desc, surplus.handle));
    EXPECT_EQ(0u, surplus.desc->CS.Status);
}

TEST_CASE("VipPostSend beyond MaxDescriptorsPerQueue is VIP_ERROR_RESOURCE", "[VipPostSend][full]")
{
    const Nic nic;
    const VIP_ULONG most = nic.attributes().MaxDescriptorsPerQueue;
    if (most > 200000) {
        throw NotApplicable("MaxDescriptorsPerQueue is too large to use up");
    }
    Memory memory(nic, (most + 1) * sizeof(VIP_DESCRIPTOR));
    const Vi vi(nic);
    for (VIP_ULONG i = 0; i < most; ++i) {
        post_send(vi, memory.work()); // flushed at once, but not reaped
    }
    const Work surplus = memory.work();
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipPostSend(vi, surplus.desc, surplus.handle));
    send_failed(vi);
    post_send(vi, surplus); // a place is free again
}

TWO_ROLE_CASE("a queue holds 1024 receives at least", "[VipPostRecv][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        std::vector<Work> works;
        for (int i = 0; i < 1024; ++i) {
            works.push_back(end.receive(4));
        }
        end.connect();
        for (unsigned i = 0; i < 1024; ++i) {
            EXPECT(received(end.vi) == works[i].desc);
            VIP_UINT32 number = 0;
            std::memcpy(&number, works[i].buffer.data, sizeof number);
            EXPECT_EQ(i, number);
        }
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        std::vector<Work> works;
        for (VIP_UINT32 i = 0; i < 1024; ++i) {
            const Span bytes = end.memory.bytes(4);
            std::memcpy(bytes.data, &i, sizeof i);
            works.push_back(end.send(bytes));
        }
        for (const Work &work : works) {
            EXPECT(sent(end.vi) == work.desc);
        }
        peer.sync();
    },
};

namespace {

/** The parts of a descriptor that belong to the program: all but Status, Length, ImmediateData. */
void expect_own_fields_intact(const VIP_DESCRIPTOR &before, const VIP_DESCRIPTOR &after)
{
    EXPECT_EQ(before.CS.Next.AddressBits, after.CS.Next.AddressBits);
    EXPECT_EQ(before.CS.NextHandle, after.CS.NextHandle);
    EXPECT_EQ(before.CS.SegCount, after.CS.SegCount);
    EXPECT_EQ(before.CS.Control, after.CS.Control);
    EXPECT_EQ(before.CS.Reserved, after.CS.Reserved);
    EXPECT_EQ(0, std::memcmp(before.DS, after.DS, sizeof before.DS));
}

} // namespace

TWO_ROLE_CASE_EACH_LEVEL("posting and completing write only Status, Length and received immediate data",
                         "[VipPostSend][early]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work in = end.memory.transfer(end.memory.bytes(20));
        in.desc->CS.Next.AddressBits = 0x1122334455667788ull;
        in.desc->CS.NextHandle = 0x99AABBCC;
        in.desc->CS.ImmediateData = 0xCAFEF00D;
        const VIP_DESCRIPTOR before = *in.desc;
        post_recv(end.vi, in);
        end.connect();
        EXPECT(received(end.vi) == in.desc);
        expect_own_fields_intact(before, *in.desc);
        EXPECT_EQ(0xCAFEF00Du, in.desc->CS.ImmediateData);
        EXPECT_EQ(4u, in.desc->CS.Length);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        const Work out = end.memory.transfer(end.memory.text("mine"));
        out.desc->CS.Next.AddressBits = 0x8877665544332211ull;
        out.desc->CS.NextHandle = 0x12345678;
        out.desc->CS.ImmediateData = 0xFEEDFACE;
        const VIP_DESCRIPTOR before = *out.desc;
        post_send(end.vi, out);
        EXPECT(sent(end.vi) == out.desc);
        expect_own_fields_intact(before, *out.desc);
        EXPECT_EQ(0xFEEDFACEu, out.desc->CS.ImmediateData);
        peer.sync();
    },
};

TEST_CASE("two connected VIs of one process reap exactly what was posted", "[VipRecvDone][early]")
{
    ConnectedPair pair;
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(10));
    const Work out = pair.client_memory.transfer(pair.client_memory.text("one thread"));
    post_recv(pair.server, in);
    post_send(pair.client, out);
    EXPECT(received(pair.server) == in.desc);
    EXPECT(sent(pair.client) == out.desc);
    EXPECT_EQ(std::string("one thread"), in.buffer.text());
    EXPECT(pair.server.recv_queue_empty());
    EXPECT(pair.client.send_queue_empty());
}
