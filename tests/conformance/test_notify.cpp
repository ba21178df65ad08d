// SPDX-License-Identifier: MIT
//
// VipSendNotify, VipRecvNotify and VipCQNotify: one registration makes one call, on a library
// thread, with the completion already taken; registrations queue up; handlers may call VIPL.
#include <atomic>

#include "notify_log.hpp"

using namespace vipl_conformance;

TWO_ROLE_CASE_EACH_LEVEL("VipRecvNotify calls the handler with the receive, already taken",
                         "[VipRecvNotify][functional]") = {
    [](Peer &peer) {
        NotifyLog log;
        Endpoint end(peer);
        const Work in = end.receive(4);
        end.connect();
        REQUIRE_VIP(VipRecvNotify(end.vi, log.context(), NotifyLog::vi_handler));
        peer.sync();
        const NotifyCall call = log.call(0);
        EXPECT(call.context == log.context());
        EXPECT(call.nic == peer.nic().handle());
        EXPECT(call.vi == static_cast<VIP_VI_HANDLE>(end.vi));
        EXPECT(call.descriptor == in.desc);
        EXPECT(call.thread != std::this_thread::get_id());
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE, in.desc);
        EXPECT_EQ(std::string("ping"), in.buffer.text());
        VIP_DESCRIPTOR *done = in.desc;
        REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(end.vi, &done));
        EXPECT(done == nullptr);
        EXPECT(end.vi.recv_queue_empty());
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

TWO_ROLE_CASE_EACH_LEVEL("VipSendNotify calls the handler with the send, already taken",
                         "[VipSendNotify][functional]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        const Work in = end.receive(4);
        end.connect();
        EXPECT(received(end.vi) == in.desc);
        peer.sync();
    },
    [](Peer &peer) {
        NotifyLog log;
        Endpoint end(peer);
        end.connect();
        REQUIRE_VIP(VipSendNotify(end.vi, log.context(), NotifyLog::vi_handler));
        const Work out = end.send("ping");
        const NotifyCall call = log.call(0);
        EXPECT(call.vi == static_cast<VIP_VI_HANDLE>(end.vi));
        EXPECT(call.descriptor == out.desc);
        EXPECT_STATUS(VIP_STATUS_OP_SEND, out.desc);
        EXPECT(end.vi.send_queue_empty());
        peer.sync();
    },
};

TWO_ROLE_CASE("VipRecvNotify calls once a registration; what comes later is reaped as usual",
              "[VipRecvNotify][functional]") = {
    [](Peer &peer) {
        NotifyLog log;
        Endpoint end(peer);
        const Work first = end.receive(4), second = end.receive(4);
        end.connect();
        REQUIRE_VIP(VipRecvNotify(end.vi, log.context(), NotifyLog::vi_handler));
        peer.sync();
        EXPECT(log.call(0).descriptor == first.desc);
        EXPECT(received(end.vi) == second.desc);
        log.expect_no_more_than(1);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        for (const char *text : {"1st", "2nd"}) {
            end.send(text);
            sent(end.vi);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("VipRecvNotify's registrations queue up and are served in order",
              "[VipRecvNotify][functional]") = {
    [](Peer &peer) {
        NotifyLog log;
        Endpoint end(peer);
        std::vector<Work> works;
        for (size_t i = 0; i < 10; ++i) {
            works.push_back(end.receive(4));
            REQUIRE_VIP(VipRecvNotify(end.vi, log.context(i), NotifyLog::vi_handler));
        }
        end.connect();
        for (size_t i = 0; i < 10; ++i) {
            EXPECT(log.call(i).descriptor == works[i].desc);
            EXPECT(log.call(i).context == log.context(i));
        }
        log.expect_no_more_than(10);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        for (int i = 0; i < 10; ++i) {
            end.send("more");
            sent(end.vi);
        }
        peer.sync();
    },
};

TWO_ROLE_CASE("VipRecvNotify counts a completion that is there already", "[VipRecvNotify][functional]") = {
    [](Peer &peer) {
        NotifyLog log;
        Endpoint end(peer);
        const Work in = end.receive(4);
        end.connect();
        peer.sync(); // the message was sent
        const unsigned long long stop = now_ms() + patience();
        while ((in.poll() & VIP_STATUS_DONE) == 0 && now_ms() < stop) {
            end.vi.state(); // any call makes progress
        }
        REQUIRE_VIP(VipRecvNotify(end.vi, log.context(), NotifyLog::vi_handler));
        EXPECT(log.call(0).descriptor == in.desc);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        end.send("ping");
        sent(end.vi);
        peer.sync();
        peer.sync();
    },
};

TWO_ROLE_CASE("VipRecvNotify's handler gets a flushed receive too", "[VipRecvNotify][functional]") = {
    [](Peer &peer) {
        NotifyLog log;
        Endpoint end(peer);
        const Work in = end.receive(4);
        end.connect();
        REQUIRE_VIP(VipRecvNotify(end.vi, log.context(), NotifyLog::vi_handler));
        peer.sync();
        EXPECT(log.call(0).descriptor == in.desc);
        EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, in.desc);
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
        REQUIRE_VIP(VipDisconnect(end.vi));
    },
};

TEST_CASE("VipSendNotify's registrations go with their VI", "[VipSendNotify][functional]")
{
    NotifyLog log;
    const Nic nic;
    Memory memory(nic);
    {
        const Vi vi(nic);
        REQUIRE_VIP(VipSendNotify(vi, log.context(), NotifyLog::vi_handler));
        REQUIRE_VIP(VipRecvNotify(vi, log.context(), NotifyLog::vi_handler));
    }
    const Vi next(nic);
    post_send(next, memory.work());
    log.expect_no_more_than(0);
}

TEST_CASE("VipSendNotify and VipRecvNotify on a queue with a completion queue are VIP_ERROR_RESOURCE",
          "[VipSendNotify][functional]")
{
    NotifyLog log;
    const Nic nic;
    const Cq cq(nic);
    const Vi both(nic, vi_attributes(), cq, cq), sends(nic, vi_attributes(), cq, nullptr);
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipSendNotify(both, log.context(), NotifyLog::vi_handler));
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipRecvNotify(both, log.context(), NotifyLog::vi_handler));
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipSendNotify(sends, log.context(), NotifyLog::vi_handler));
    REQUIRE_VIP(VipRecvNotify(sends, log.context(), NotifyLog::vi_handler));
    log.expect_no_more_than(0);
}

namespace {

/** An echo server that lives in its handlers: each call re-registers, answers and reposts. */
struct Echo {
    Work in, out;
    std::atomic<int> answers{0}, failures{0};

    static void VI_CALL on_receive(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE vi,
                                   VIP_DESCRIPTOR *descriptor)
    {
        auto *echo = static_cast<Echo *>(context);
        bool good = descriptor == echo->in.desc && (descriptor->CS.Status & VIP_STATUS_ERROR_MASK) == 0;
        VIP_DESCRIPTOR *done = nullptr;
        good = good && VipRecvNotify(vi, context, on_receive) == VIP_SUCCESS;
        good = good && VipPostRecv(vi, echo->in.desc, echo->in.handle) == VIP_SUCCESS;
        good = good && VipPostSend(vi, echo->out.desc, echo->out.handle) == VIP_SUCCESS;
        good = good && VipSendWait(vi, patience(), &done) == VIP_SUCCESS;
        (good ? echo->answers : echo->failures).fetch_add(1, std::memory_order_release);
    }
};

} // namespace

TWO_ROLE_CASE_ONE_NIC("VipRecvNotify's handler may register again, post, and wait",
                      "[VipRecvNotify][functional]") = {
    [](Peer &peer) {
        static Echo echo;
        echo.answers.store(0);
        echo.failures.store(0);
        Endpoint end(peer);
        echo.in = end.memory.transfer(end.memory.bytes(4));
        echo.out = end.memory.transfer(end.memory.text("echo"));
        post_recv(end.vi, echo.in);
        REQUIRE_VIP(VipRecvNotify(end.vi, &echo, Echo::on_receive));
        end.connect();
        peer.sync(); // all answers have come
        const unsigned long long stop = now_ms() + patience();
        while (echo.answers.load(std::memory_order_acquire) + echo.failures.load(std::memory_order_acquire) <
                   20 &&
               now_ms() < stop) {
            give_way();
        }
        EXPECT_EQ(20, echo.answers.load(std::memory_order_acquire));
        EXPECT_EQ(0, echo.failures.load(std::memory_order_acquire));
        peer.sync();
        REQUIRE_VIP(VipDisconnect(end.vi)); // flushes the last receive to the last registration
        while (echo.failures.load(std::memory_order_acquire) < 1 && now_ms() < stop) {
            give_way();
        }
        EXPECT_EQ(1, echo.failures.load(std::memory_order_acquire));
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        for (int i = 0; i < 20; ++i) {
            const Work in = end.receive(4);
            end.send("ping");
            sent(end.vi);
            EXPECT(received(end.vi) == in.desc);
            EXPECT_EQ(std::string("echo"), in.buffer.text());
        }
        peer.sync();
        peer.sync();
    },
};

TEST_CASE("VipCQNotify calls the handler with the entry, already taken", "[VipCQNotify][functional]")
{
    NotifyLog log;
    const Nic nic;
    Memory memory(nic);
    const Cq cq(nic);
    const Vi vi(nic, vi_attributes(), cq, cq);
    REQUIRE_VIP(VipCQNotify(cq, log.context(), NotifyLog::cq_handler));
    const Work out = memory.work();
    post_send(vi, out);
    const NotifyCall call = log.call(0);
    EXPECT(call.context == log.context());
    EXPECT(call.nic == nic.handle());
    EXPECT(call.vi == static_cast<VIP_VI_HANDLE>(vi));
    EXPECT_EQ(VIP_FALSE, call.receive_queue);
    EXPECT(call.thread != std::this_thread::get_id());
    VIP_VI_HANDLE seen = nullptr;
    VIP_BOOLEAN queue = VIP_FALSE;
    REQUIRE_RC(VIP_NOT_DONE, VipCQDone(cq, &seen, &queue));
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(VIP_DESCRIPTOR_ERROR, VipSendDone(vi, &done)); // the descriptor stays in its queue
    EXPECT(done == out.desc);
    log.expect_no_more_than(1);
}

TWO_ROLE_CASE("VipCQNotify tells of receives, one call a registration", "[VipCQNotify][functional]") = {
    [](Peer &peer) {
        NotifyLog log;
        const Cq cq(peer.nic());
        Endpoint end(peer, kTransferSize, nullptr, cq);
        std::vector<Work> works;
        for (size_t i = 0; i < 5; ++i) {
            works.push_back(end.receive(4));
            REQUIRE_VIP(VipCQNotify(cq, log.context(i), NotifyLog::cq_handler));
        }
        end.connect();
        for (size_t i = 0; i < 5; ++i) {
            EXPECT(log.call(i).vi == static_cast<VIP_VI_HANDLE>(end.vi));
            EXPECT_EQ(VIP_TRUE, log.call(i).receive_queue);
            EXPECT(log.call(i).context == log.context(i));
            VIP_DESCRIPTOR *done = nullptr;
            REQUIRE_VIP(VipRecvDone(end.vi, &done));
            EXPECT(done == works[i].desc);
        }
        log.expect_no_more_than(5);
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        for (int i = 0; i < 5; ++i) {
            end.send("more");
            sent(end.vi);
        }
        peer.sync();
    },
};

TEST_CASE("VipCQNotify's registrations go with their completion queue", "[VipCQNotify][functional]")
{
    NotifyLog log;
    const Nic nic;
    Memory memory(nic);
    {
        const Cq cq(nic);
        REQUIRE_VIP(VipCQNotify(cq, log.context(), NotifyLog::cq_handler));
    }
    const Cq next(nic);
    const Vi vi(nic, vi_attributes(), next, next);
    post_send(vi, memory.work());
    log.expect_no_more_than(0);
}

namespace {

struct Rearm {
    std::atomic<int> calls{0}, failures{0};
    VIP_CQ_HANDLE cq = nullptr;

    static void VI_CALL handler(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE vi,
                                VIP_BOOLEAN receive_queue)
    {
        auto *self = static_cast<Rearm *>(context);
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN reaped = receive_queue ? VipRecvDone(vi, &done) : VipSendDone(vi, &done);
        if (reaped != VIP_DESCRIPTOR_ERROR || VipCQNotify(self->cq, context, handler) != VIP_SUCCESS) {
            self->failures.fetch_add(1, std::memory_order_release);
        }
        self->calls.fetch_add(1, std::memory_order_release);
    }
};

} // namespace

TEST_CASE("VipCQNotify's handler may reap and register again", "[VipCQNotify][functional]")
{
    static Rearm rearm;
    const Nic nic;
    Memory memory(nic);
    const Cq cq(nic);
    const Vi vi(nic, vi_attributes(), cq, cq);
    rearm.cq = cq;
    REQUIRE_VIP(VipCQNotify(cq, &rearm, Rearm::handler));
    for (int i = 0; i < 50; ++i) {
        post_send(vi, memory.work());
    }
    const unsigned long long stop = now_ms() + patience();
    while (rearm.calls.load(std::memory_order_acquire) < 50 && now_ms() < stop) {
        give_way();
    }
    EXPECT_EQ(50, rearm.calls.load(std::memory_order_acquire));
    EXPECT_EQ(0, rearm.failures.load(std::memory_order_acquire));
    EXPECT(vi.send_queue_empty());
}

TEST_CASE("callbacks of one NIC handle never run two at once", "[VipSendNotify][full]")
{
    struct Gate {
        std::atomic<int> inside{0}, overlaps{0}, calls{0};
        static void VI_CALL handler(VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *)
        {
            auto *gate = static_cast<Gate *>(context);
            if (gate->inside.fetch_add(1) != 0) {
                gate->overlaps.fetch_add(1);
            }
            give_way();
            gate->inside.fetch_sub(1);
            gate->calls.fetch_add(1, std::memory_order_release);
        }
    };
    static Gate gate;
    const Nic nic;
    Memory memory(nic);
    const Vi one(nic), two(nic), three(nic);
    for (int i = 0; i < 20; ++i) {
        for (const Vi *vi : {&one, &two, &three}) {
            REQUIRE_VIP(VipSendNotify(*vi, &gate, Gate::handler));
            post_send(*vi, memory.work());
        }
    }
    const unsigned long long stop = now_ms() + patience();
    while (gate.calls.load(std::memory_order_acquire) < 60 && now_ms() < stop) {
        give_way();
    }
    EXPECT_EQ(60, gate.calls.load(std::memory_order_acquire));
    EXPECT_EQ(0, gate.overlaps.load());
}
