// SPDX-License-Identifier: MIT
//
// Completion queues: limits, order across VIs, the way from an entry to its descriptor, waiting,
// resizing and destroying under waiters, queues of one entry.
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "support/error_log.hpp"
#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

void expect_empty(VIP_CQ_HANDLE cq)
{
    int anything = 0;
    VIP_VI_HANDLE vi = &anything;
    VIP_BOOLEAN queue = VIP_TRUE;
    REQUIRE_RC(VIP_NOT_DONE, VipCQDone(cq, &vi, &queue));
    EXPECT(vi == nullptr);
}

/** A VI that flushes what is sent on it at once: completions without a connection. */
void complete_one(Memory &memory, VIP_VI_HANDLE vi)
{
    post_send(vi, memory.work());
}

VIP_DESCRIPTOR *take_send(VIP_VI_HANDLE vi)
{
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(VIP_DESCRIPTOR_ERROR, VipSendDone(vi, &done));
    return done;
}

/** Run `blocked` in a thread and `act` in this one, after a moment in which the other blocks. */
VIP_RETURN while_blocked(const std::function<VIP_RETURN()> &blocked, const std::function<void()> &act)
{
    VIP_RETURN returned = VIP_SUCCESS;
    std::thread waiter([&] { returned = blocked(); });
    std::string problem;
    try {
        let_a_moment_pass();
        act();
    } catch (const std::exception &error) {
        problem = error.what();
    }
    waiter.join();
    if (!problem.empty()) {
        throw Failure(problem);
    }
    return returned;
}

} // namespace

TEST_CASE("VipCreateCQ takes 1 to MaxCQEntries entries", "[VipCreateCQ][functional]")
{
    const Nic nic;
    const Cq smallest(nic, 1), largest(nic, std::min<VIP_ULONG>(nic.attributes().MaxCQEntries, 1 << 20));
    expect_empty(smallest);
    expect_empty(largest);
}

TEST_CASE("VipCreateCQ of no entries is VIP_INVALID_PARAMETER and hands back NULL",
          "[VipCreateCQ][functional]")
{
    const Nic nic;
    VIP_CQ_HANDLE cq = &cq;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipCreateCQ(nic, 0, &cq));
    EXPECT(cq == nullptr);
}

TEST_CASE("VipCreateCQ above MaxCQEntries is VIP_ERROR_RESOURCE and hands back NULL",
          "[VipCreateCQ][functional]")
{
    const Nic nic;
    const VIP_ULONG most = nic.attributes().MaxCQEntries;
    if (most == ~static_cast<VIP_ULONG>(0)) {
        throw NotApplicable("MaxCQEntries has no bound");
    }
    VIP_CQ_HANDLE cq = &cq;
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipCreateCQ(nic, most + 1, &cq));
    EXPECT(cq == nullptr);
}

TEST_CASE("VipCreateCQ beyond MaxCQ is VIP_ERROR_RESOURCE", "[VipCreateCQ][full]")
{
    const Nic nic;
    const VIP_ULONG most = nic.attributes().MaxCQ;
    if (most > 100000) {
        throw NotApplicable("MaxCQ is too large to use up");
    }
    VIP_CQ_HANDLE cq = nullptr;
    VIP_RETURN rc = VIP_SUCCESS;
    for (VIP_ULONG i = 0; i <= most && rc == VIP_SUCCESS; ++i) {
        rc = VipCreateCQ(nic, 1, &cq);
    }
    EXPECT_EQ(VIP_ERROR_RESOURCE, rc);
    EXPECT(cq == nullptr);
}

TEST_CASE("VipDestroyCQ ends a completion queue", "[VipDestroyCQ][functional]")
{
    const Nic nic;
    VIP_CQ_HANDLE cq = nullptr;
    REQUIRE_VIP(VipCreateCQ(nic, 4, &cq));
    REQUIRE_VIP(VipDestroyCQ(cq));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipDestroyCQ(cq));
}

TEST_CASE("VipDestroyCQ of a completion queue that a VI uses is VIP_ERROR_RESOURCE",
          "[VipDestroyCQ][functional]")
{
    const Nic nic;
    VIP_CQ_HANDLE sends = nullptr, receives = nullptr;
    REQUIRE_VIP(VipCreateCQ(nic, 4, &sends));
    REQUIRE_VIP(VipCreateCQ(nic, 4, &receives));
    {
        const Vi vi(nic, vi_attributes(), sends, receives);
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipDestroyCQ(sends));
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipDestroyCQ(receives));
        expect_empty(sends);
    }
    REQUIRE_VIP(VipDestroyCQ(sends));
    REQUIRE_VIP(VipDestroyCQ(receives));
}

TEST_CASE("VipDestroyCQ wakes blocked waiters, who get VIP_INVALID_PARAMETER", "[VipDestroyCQ][full]")
{
    const Nic nic;
    VIP_CQ_HANDLE cq = nullptr;
    REQUIRE_VIP(VipCreateCQ(nic, 4, &cq));
    int anything = 0;
    VIP_VI_HANDLE vi = &anything;
    VIP_BOOLEAN queue = VIP_FALSE;
    REQUIRE_RC(VIP_INVALID_PARAMETER, while_blocked([&] { return VipCQWait(cq, VIP_INFINITE, &vi, &queue); },
                                                    [&] { REQUIRE_VIP(VipDestroyCQ(cq)); }));
    EXPECT(vi == nullptr);
}

TEST_CASE("VipCQDone of an empty completion queue is VIP_NOT_DONE and hands back NULL",
          "[VipCQDone][functional]")
{
    const Nic nic;
    const Cq cq(nic);
    expect_empty(cq);
}

TEST_CASE("VipCQDone's entry names the VI and its queue, and comes once", "[VipCQDone][functional]")
{
    const Nic nic;
    Memory memory(nic);
    const Cq cq(nic);
    const Vi vi(nic, vi_attributes(), cq, cq);
    complete_one(memory, vi);
    VIP_VI_HANDLE seen = nullptr;
    VIP_BOOLEAN queue = VIP_TRUE;
    REQUIRE_VIP(VipCQDone(cq, &seen, &queue));
    EXPECT(seen == static_cast<VIP_VI_HANDLE>(vi));
    EXPECT_EQ(VIP_FALSE, queue);
    EXPECT_STATUS(VIP_STATUS_DESC_FLUSHED_ERROR, take_send(vi));
    expect_empty(cq);
}

TEST_CASE("VipCQWait times out after its time, not before, and hands back NULL", "[VipCQWait][functional]")
{
    const Nic nic;
    const Cq cq(nic);
    int anything = 0;
    VIP_VI_HANDLE vi = &anything;
    VIP_BOOLEAN queue = VIP_FALSE;
    REQUIRE_RC(VIP_TIMEOUT, VipCQWait(cq, 0, &vi, &queue));
    EXPECT(vi == nullptr);
    const unsigned long long start = now_ms();
    REQUIRE_RC(VIP_TIMEOUT, VipCQWait(cq, kMoment, &vi, &queue));
    EXPECT(now_ms() - start + 1 >= kMoment);
}

TEST_CASE("VipCQWait with an infinite timeout, of 32 bits too, waits for an entry", "[VipCQWait][functional]")
{
    const Nic nic;
    Memory memory(nic);
    const Cq cq(nic);
    const Vi vi(nic, vi_attributes(), cq, cq);
    for (const VIP_ULONG timeout : {VIP_INFINITE, static_cast<VIP_ULONG>(0xFFFFFFFFu)}) {
        VIP_VI_HANDLE seen = nullptr;
        VIP_BOOLEAN queue = VIP_TRUE;
        REQUIRE_VIP(while_blocked([&] { return VipCQWait(cq, timeout, &seen, &queue); },
                                  [&] { complete_one(memory, vi); }));
        EXPECT(seen == static_cast<VIP_VI_HANDLE>(vi));
        take_send(vi);
    }
}

TWO_ROLE_CASE_EACH_LEVEL("VipCQWait tells of sends and of receives, each on its own completion queue",
                         "[VipCQWait][functional]") = {
    [](Peer &peer) {
        const Cq sends(peer.nic()), receives(peer.nic());
        Endpoint end(peer, kTransferSize, sends, receives);
        const Work in = end.receive(4);
        end.connect();
        receives.expect(end.vi, VIP_TRUE);
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipRecvDone(end.vi, &done));
        EXPECT(done == in.desc);
        const Work out = end.send("pong");
        sends.expect(end.vi, VIP_FALSE);
        REQUIRE_VIP(VipSendDone(end.vi, &done));
        EXPECT(done == out.desc);
        expect_empty(sends);
        expect_empty(receives);
        peer.sync();
    },
    [](Peer &peer) {
        const Cq both(peer.nic());
        Endpoint end(peer, kTransferSize, both, both);
        end.receive(4);
        end.connect();
        end.send("ping");
        VIP_BOOLEAN first = VIP_FALSE, second = VIP_FALSE; // the answer may overtake the send's completion
        VIP_VI_HANDLE vi = nullptr;
        REQUIRE_VIP(VipCQWait(both, patience(), &vi, &first));
        EXPECT(vi == static_cast<VIP_VI_HANDLE>(end.vi));
        REQUIRE_VIP(VipCQWait(both, patience(), &vi, &second));
        EXPECT(first != second);
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipSendDone(end.vi, &done));
        REQUIRE_VIP(VipRecvDone(end.vi, &done));
        expect_empty(both);
        peer.sync();
    },
};

// At Reliable Reception, where a send is complete when its message has arrived: connections have no
// order among them.
TWO_ROLE_CASE_AT(VIP_SERVICE_RELIABLE_RECEPTION,
                 "VipCQWait gives the entries of several VIs in completion order",
                 "[VipCQWait][functional]") = {
    [](Peer &peer) {
        const Cq cq(peer.nic());
        Endpoint one(peer, kTransferSize, nullptr, cq), two(peer, kTransferSize, nullptr, cq);
        Endpoint *const ends[] = {&one, &two};
        for (Endpoint *end : ends) {
            for (int i = 0; i < 12; ++i) {
                end->receive(8);
            }
            end->connect();
        }
        for (unsigned i = 0; i < 20; ++i) {
            peer.sync();
            cq.expect(ends[(i / 3) % 2]->vi, VIP_TRUE);
            VIP_DESCRIPTOR *done = nullptr;
            REQUIRE_VIP(VipRecvDone(ends[(i / 3) % 2]->vi, &done));
        }
        expect_empty(cq);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint one(peer), two(peer);
        Endpoint *const ends[] = {&one, &two};
        for (Endpoint *end : ends) {
            end->connect();
        }
        for (unsigned i = 0; i < 20; ++i) {
            ends[(i / 3) % 2]->send("x");
            sent(ends[(i / 3) % 2]->vi);
            peer.sync();
        }
        peer.sync();
    },
};

TEST_CASE("VipCQDone keeps completion order over many unreaped entries", "[VipCQDone][functional]")
{
    const Nic nic;
    Memory memory(nic);
    const Cq cq(nic, 256);
    const Vi one(nic, vi_attributes(), cq, nullptr), two(nic, vi_attributes(), cq, nullptr),
        three(nic, vi_attributes(), cq, nullptr);
    const Vi *const vis[] = {&one, &two, &three};
    for (unsigned i = 0; i < 100; ++i) {
        complete_one(memory, *vis[(i * i) % 3]);
    }
    for (unsigned i = 0; i < 100; ++i) {
        cq.expect(*vis[(i * i) % 3], VIP_FALSE);
        take_send(*vis[(i * i) % 3]);
    }
    expect_empty(cq);
}

TEST_CASE("VipSendWait and VipRecvWait on a queue with a completion queue are VIP_ERROR_RESOURCE",
          "[VipRecvWait][functional]")
{
    const Nic nic;
    const Cq cq(nic);
    const Vi both(nic, vi_attributes(), cq, cq), sends(nic, vi_attributes(), cq, nullptr);
    VIP_DESCRIPTOR *done = reinterpret_cast<VIP_DESCRIPTOR *>(&done);
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipRecvWait(both, 0, &done));
    EXPECT(done == nullptr);
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipSendWait(both, VIP_INFINITE, &done));
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipSendWait(sends, 0, &done));
    REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(sends, 0, &done)); // this queue has none
}

TEST_CASE("VipSendDone on a queue with a completion queue takes the entry too", "[VipSendDone][functional]")
{
    const Nic nic;
    Memory memory(nic);
    const Cq cq(nic);
    const Vi vi(nic, vi_attributes(), cq, cq), other(nic, vi_attributes(), cq, cq);
    complete_one(memory, vi);
    complete_one(memory, other);
    take_send(vi);
    cq.expect(other, VIP_FALSE);
    expect_empty(cq);
}

TEST_CASE("VipResizeCQ changes an empty queue's size", "[VipResizeCQ][full]")
{
    const Nic nic;
    const Cq cq(nic, 1);
    REQUIRE_VIP(VipResizeCQ(cq, 100));
    REQUIRE_VIP(VipResizeCQ(cq, nic.attributes().MaxCQEntries));
    REQUIRE_VIP(VipResizeCQ(cq, 1));
}

TEST_CASE("VipResizeCQ to no entries is VIP_INVALID_PARAMETER, above MaxCQEntries VIP_ERROR_RESOURCE",
          "[VipResizeCQ][full]")
{
    const Nic nic;
    const Cq cq(nic);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipResizeCQ(cq, 0));
    if (nic.attributes().MaxCQEntries < ~static_cast<VIP_ULONG>(0)) {
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipResizeCQ(cq, nic.attributes().MaxCQEntries + 1));
    }
}

TEST_CASE("VipResizeCQ keeps queued entries in order", "[VipResizeCQ][full]")
{
    const Nic nic;
    Memory memory(nic);
    const Cq cq(nic, 4);
    const Vi one(nic, vi_attributes(), cq, cq), two(nic, vi_attributes(), cq, cq);
    complete_one(memory, one);
    complete_one(memory, two);
    complete_one(memory, one);
    REQUIRE_VIP(VipResizeCQ(cq, 50));
    complete_one(memory, two);
    REQUIRE_VIP(VipResizeCQ(cq, 4));
    for (const Vi *vi : {&one, &two, &one, &two}) {
        cq.expect(*vi, VIP_FALSE);
    }
    expect_empty(cq);
}

TEST_CASE("VipResizeCQ below the entries queued is VIP_ERROR_RESOURCE and keeps them", "[VipResizeCQ][full]")
{
    const Nic nic;
    Memory memory(nic);
    const Cq cq(nic, 4);
    const Vi vi(nic, vi_attributes(), cq, cq);
    complete_one(memory, vi);
    complete_one(memory, vi);
    complete_one(memory, vi);
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipResizeCQ(cq, 2));
    REQUIRE_VIP(VipResizeCQ(cq, 3));
    for (int i = 0; i < 3; ++i) {
        cq.expect(vi, VIP_FALSE);
    }
    expect_empty(cq);
}

TEST_CASE("VipResizeCQ under a blocked waiter leaves it waiting", "[VipResizeCQ][full]")
{
    const Nic nic;
    Memory memory(nic);
    const Cq cq(nic, 1);
    const Vi vi(nic, vi_attributes(), cq, cq);
    VIP_VI_HANDLE seen = nullptr;
    VIP_BOOLEAN queue = VIP_TRUE;
    REQUIRE_VIP(while_blocked([&] { return VipCQWait(cq, patience(), &seen, &queue); },
                              [&] {
                                  REQUIRE_VIP(VipResizeCQ(cq, 100));
                                  REQUIRE_VIP(VipResizeCQ(cq, 2));
                                  complete_one(memory, vi);
                              }));
    EXPECT(seen == static_cast<VIP_VI_HANDLE>(vi));
    EXPECT_EQ(VIP_FALSE, queue);
}

TEST_CASE("VipCQWait of many threads gives each entry to one", "[VipCQWait][full]")
{
    const Nic nic;
    Memory memory(nic);
    const Cq cq(nic, 100);
    const Vi vi(nic, vi_attributes(), cq, cq);
    std::atomic<int> entries{0}, bad{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int n = 0; n < 25; ++n) {
                VIP_VI_HANDLE seen = nullptr;
                VIP_BOOLEAN queue = VIP_TRUE;
                const VIP_RETURN rc = VipCQWait(cq, patience(), &seen, &queue);
                (rc == VIP_SUCCESS && seen == static_cast<VIP_VI_HANDLE>(vi) && !queue ? entries : bad)
                    .fetch_add(1, std::memory_order_relaxed);
            }
        });
    }
    for (int i = 0; i < 100; ++i) {
        complete_one(memory, vi);
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(100, entries.load());
    EXPECT_EQ(0, bad.load());
    expect_empty(cq);
}

TWO_ROLE_CASE("a disconnect's flushed receives come through the completion queue in order",
              "[VipCQWait][functional]") = {
    [](Peer &peer) {
        const Cq cq(peer.nic());
        Endpoint end(peer, kTransferSize, cq, cq);
        std::vector<Work> works;
        for (int i = 0; i < 5; ++i) {
            works.push_back(end.receive(10));
        }
        end.connect();
        peer.sync();
        for (const Work &work : works) {
            cq.expect(end.vi, VIP_TRUE);
            VIP_DESCRIPTOR *done = nullptr;
            REQUIRE_RC(VIP_DESCRIPTOR_ERROR, VipRecvDone(end.vi, &done));
            EXPECT(done == work.desc);
            EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, done);
        }
        expect_empty(cq);
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        REQUIRE_VIP(VipDisconnect(end.vi));
    },
};

TWO_ROLE_CASE("RDMA Write with immediate data comes through the receive completion queue",
              "[VipCQWait][functional]") = {
    [](Peer &peer) {
        const Cq cq(peer.nic());
        Endpoint end(peer, kTransferSize, nullptr, cq);
        const Work in = end.memory.work();
        post_recv(end.vi, in);
        end.connect();
        peer.send(end.memory.bytes(8).remote());
        cq.expect(end.vi, VIP_TRUE);
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_VIP(VipRecvDone(end.vi, &done));
        EXPECT(done == in.desc);
        EXPECT_STATUS(VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE, done);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        Work out = end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, peer.receive<RemoteSpan>(), end.memory.bytes(8));
        post_send(end.vi, out.immediate(3));
        sent(end.vi);
        peer.sync();
    },
};
