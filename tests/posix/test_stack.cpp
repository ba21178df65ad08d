// SPDX-License-Identifier: MIT
//
// POSIX extensions: how much stack the functions need. Handlers run on small ones, and so do
// threads.
#include <algorithm>
#include <climits>
#include <vector>

#include <pthread.h>

#include <vipl/posix.h>

#include "conformance/connect_roles.hpp"
#include "support/stack_use.hpp"

using namespace vipl_conformance;

namespace {

/** With rnic:inproc the calls run all of the card's model as well. */
std::size_t max_stack()
{
    std::size_t most = std::string(device_under_test()) == "rnic:inproc" ? 6144 : 4096;
#ifdef __s390x__ // whose smallest frame is 160 bytes
    most += most / 2;
#endif
    return most;
}

constexpr VIP_UINT32 kPieces[] = {1, 16, 256}; // bytes; in all the transfer size, or nearly

unsigned most_segments(const Nic &nic)
{
    VIP_NIC_ATTRIBUTES attributes{};
    REQUIRE_VIP(VipQueryNic(nic, &attributes));
    return static_cast<unsigned>(attributes.MaxSegmentsPerDesc);
}

/** A transfer of that many pieces, which do not touch. */
Work scattered(Memory &memory, unsigned pieces, VIP_UINT32 bytes)
{
    Work work = memory.work(pieces);
    for (unsigned i = 0; i < pieces; ++i) {
        work.local(memory.bytes(bytes + 1).part(0, bytes));
    }
    return work;
}

Work scattered_rdma(Memory &memory, VIP_UINT16 op, RemoteSpan remote, unsigned pieces, VIP_UINT32 bytes)
{
    Work work = memory.work(pieces).op(op).remote(remote);
    for (unsigned i = 1; i < pieces; ++i) {
        work.local(memory.bytes(bytes + 1).part(0, bytes));
    }
    return work;
}

/** The six, measured. */
struct Measured {
    explicit Measured(VIP_VI_HANDLE which, VIP_CQ_HANDLE queue) : vi(which), cq(queue) {}

    VIP_RETURN post_send(const Work &work)
    {
        return posting([&] { return VipPostSend(vi, work.desc, work.handle); });
    }
    VIP_RETURN post_recv(const Work &work)
    {
        return posting([&] { return VipPostRecv(vi, work.desc, work.handle); });
    }
    void expect_sent() { await(VIP_FALSE); }
    void expect_received() { await(VIP_TRUE); }
    void await(VIP_BOOLEAN is_recv)
    {
        VIP_VI_HANDLE which = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        const unsigned long long end = now_ms() + patience();
        while (done([&] { return VipCQDone(cq, &which, &recv); }) != VIP_SUCCESS) {
            EXPECT(now_ms() < end);
            (void)querying([&] {
                VIP_VI_STATE state;
                VIP_VI_ATTRIBUTES attributes;
                VIP_BOOLEAN sends_empty, receives_empty;
                return VipQueryVi(vi, &state, &attributes, &sends_empty, &receives_empty);
            });
        }
        EXPECT_EQ(is_recv, recv);
        VIP_DESCRIPTOR *descriptor = nullptr;
        REQUIRE_VIP(done([&] {
            return is_recv != VIP_FALSE ? VipRecvDone(vi, &descriptor) : VipSendDone(vi, &descriptor);
        }));
    }
    void judge(const char *who) const
    {
        const std::string use = std::string(who) + ": posting " + std::to_string(posting.most()) + ", done " +
                                std::to_string(done.most()) + ", querying " + std::to_string(querying.most());
        if (std::max({posting.most(), done.most(), querying.most()}) > max_stack()) {
            throw Failure(use + " bytes of stack");
        }
    }

    VIP_VI_HANDLE vi;
    VIP_CQ_HANDLE cq;
    StackUse posting, done, querying;
};

void only_with_our_stack()
{
    if (!kStackIsOurs) {
        throw NotApplicable("a sanitizer's frames are larger");
    }
}

} // namespace

TWO_ROLE_CASE_EACH_LEVEL("the functions for handlers take 4 KiB of stack at most, also for the longest lists",
                         "[VipPostSend][posix][private][stack]") = {
    [](Peer &peer) {
        only_with_our_stack();
        const unsigned segments = most_segments(peer.nic());
        const Cq cq(peer.nic());
        Endpoint end(peer, vi_attributes(peer.level()), 1024 * 1024);
        Memory target(peer.nic(), 256 * 1024, rdma_memory());
        const Vi vi(peer.nic(), vi_attributes(peer.level()), cq, cq);
        Measured calls(vi, cq);
        for (VIP_UINT32 bytes : kPieces) {
            REQUIRE_VIP(calls.post_recv(scattered(end.memory, segments, bytes)));
        }
        const Incoming incoming = wait_for_request(peer.nic(), peer.server_address());
        REQUIRE_VIP(VipConnectAccept(incoming.connection, vi));
        peer.send(target.bytes(128 * 1024).remote());
        for (unsigned i = 0; i < std::size(kPieces); ++i) {
            calls.expect_received();
        }
        while (!peer.receive<bool>()) { // RDMA may need this side's calls
            VIP_DESCRIPTOR *none = nullptr;
            EXPECT_EQ(VIP_NOT_DONE, calls.done([&] { return VipRecvDone(vi, &none); }));
            peer.send(true);
        }
        calls.judge("the receiver");
        peer.sync();
    },
    [](Peer &peer) {
        only_with_our_stack();
        const unsigned segments = most_segments(peer.nic());
        const Cq cq(peer.nic());
        Memory memory(peer.nic(), 1024 * 1024);
        const Vi vi(peer.nic(), vi_attributes(peer.level()), cq, cq);
        Measured calls(vi, cq);
        REQUIRE_VIP(request(vi, peer.client_address(), peer.server_address()));
        const RemoteSpan remote = peer.receive<RemoteSpan>();
        for (VIP_UINT32 bytes : kPieces) {
            REQUIRE_VIP(calls.post_send(scattered(memory, segments, bytes)));
            calls.expect_sent();
        }
        std::vector<VIP_UINT16> ops{VIP_CONTROL_OP_RDMAWRITE};
        if (peer.reliable()) {
            ops.push_back(VIP_CONTROL_OP_RDMAREAD);
        }
        for (const VIP_UINT16 op : ops) {
            for (VIP_UINT32 bytes : kPieces) {
                REQUIRE_VIP(calls.post_send(scattered_rdma(memory, op, remote, segments, bytes)));
                calls.expect_sent();
                peer.send(false);
                peer.receive<bool>();
            }
        }
        peer.send(true);
        calls.judge("the sender");
        peer.sync();
    },
};

namespace {

/** A thread with the smallest stack that there is, which sends and receives. */
struct SmallThread {
    VIP_VI_HANDLE vi, peer; // of the peer, both queues report to `cq`
    VIP_CQ_HANDLE cq;
    std::vector<Work> out, in;
    VIP_RETURN rc = VIP_SUCCESS;

    static void *run(void *arg)
    {
        auto *self = static_cast<SmallThread *>(arg);
        for (unsigned i = 0; i < self->out.size() && self->rc == VIP_SUCCESS; ++i) {
            self->rc = self->exchange(i, i % 2 != 0);
        }
        return nullptr;
    }
    VIP_RETURN exchange(unsigned i, bool waits) const
    {
        VIP_RETURN all = VipPostRecv(peer, in[i].desc, in[i].handle);
        all = all != VIP_SUCCESS ? all : VipPostSend(vi, out[i].desc, out[i].handle);
        VIP_DESCRIPTOR *done = nullptr;
        VIP_VI_HANDLE which = nullptr;
        VIP_BOOLEAN is_recv = VIP_FALSE;
        VIP_RETURN sent = VIP_NOT_DONE, reported = VIP_NOT_DONE;
        const unsigned long long end = now_ms() + patience();
        while (all == VIP_SUCCESS && (sent == VIP_NOT_DONE || reported == VIP_NOT_DONE)) {
            if (reported == VIP_NOT_DONE) {
                reported =
                    waits ? VipCQWait(cq, patience(), &which, &is_recv) : VipCQDone(cq, &which, &is_recv);
            }
            if (sent == VIP_NOT_DONE) {
                sent = waits ? VipSendWait(vi, patience(), &done) : VipSendDone(vi, &done);
            }
            all = now_ms() > end ? VIP_TIMEOUT : VIP_SUCCESS;
        }
        all = all != VIP_SUCCESS ? all : sent != VIP_SUCCESS ? sent : reported;
        return all != VIP_SUCCESS ? all : VipRecvDone(peer, &done);
    }
};

} // namespace

TEST_CASE("a thread with the smallest stack may post, poll and wait", "[VipPostSend][posix][private][stack]")
{
    only_with_our_stack();
    Nic nic, peer_nic;
    const Cq cq(peer_nic);
    Memory memory(nic, 1024 * 1024), peer_memory(peer_nic, 1024 * 1024);
    const Vi vi(nic), peer(peer_nic, vi_attributes(), cq, cq);
    connect_pair(peer_nic, peer, nic, vi);
    SmallThread body{vi, peer, cq, {}, {}};
    for (VIP_UINT32 bytes : kPieces) {
        for (unsigned i = 0; i < 2; ++i) {
            body.out.push_back(scattered(memory, most_segments(nic), bytes));
            body.in.push_back(scattered(peer_memory, most_segments(nic), bytes));
        }
    }
    pthread_attr_t attributes;
    pthread_t thread;
    REQUIRE(pthread_attr_init(&attributes) == 0);
    const std::size_t smallest = std::max<std::size_t>(PTHREAD_STACK_MIN, 16384); // musl's is 2048
    REQUIRE(pthread_attr_setstacksize(&attributes, smallest) == 0);
    REQUIRE(pthread_create(&thread, &attributes, SmallThread::run, &body) == 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    REQUIRE_VIP(body.rc);
}
