// SPDX-License-Identifier: MIT
//
// The VI's state machine: each event of the contract's table in each of the four states. A case is
// made for every pair, named "<function> on a VI that is <state>: <what must happen>".
#include <functional>
#include <iterator>
#include <vector>

#include "support/role_case.hpp"

using namespace vipl_test;

namespace {

/** A VI brought into a state, and the peer that helped to bring it there. */
struct Situation {
    explicit Situation(VIP_VI_STATE state) : memory(nic), vi(nic), peer(peer_nic)
    {
        const std::string name = unique_discriminator();
        if (state == VIP_STATE_CONNECT_PENDING) {
            NetAddress local = nic.address(name), remote = nic.address(name + "r");
            REQUIRE_VIP(VipConnectPeerRequest(vi, local, remote, VIP_INFINITE));
        } else if (state != VIP_STATE_IDLE) {
            connect_pair(nic, vi, peer_nic, peer);
        }
        if (state == VIP_STATE_ERROR) {
            REQUIRE_VIP(VipDisconnect(peer));
            vi.await(VIP_STATE_ERROR);
        }
        EXPECT_EQ(state, vi.state());
    }

    Nic nic, peer_nic;
    Memory memory;
    Vi vi, peer;
};

using Event = void (*)(Situation &);

// What may happen, each as a check of its own.

void receive_is_queued(Situation &s)
{
    VIP_DESCRIPTOR *done = nullptr;
    const Work work = s.memory.transfer(s.memory.bytes(16));
    post_recv(s.vi, work);
    REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(s.vi, &done));
    EXPECT(done == nullptr);
    EXPECT(!s.vi.recv_queue_empty());
    REQUIRE_VIP(VipDisconnect(s.vi));
    if (s.vi.recv_queue_empty()) {
        throw Failure("the queued receive was lost");
    }
    REQUIRE_RC(VIP_DESCRIPTOR_ERROR, VipRecvDone(s.vi, &done));
    EXPECT(done == work.desc);
}

void receive_stays_queued_over_disconnect(Situation &s)
{
    VIP_DESCRIPTOR *done = nullptr;
    const Work work = s.memory.transfer(s.memory.bytes(16));
    post_recv(s.vi, work);
    REQUIRE_VIP(VipDisconnect(s.vi)); // on an idle VI it succeeds and changes nothing
    REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(s.vi, &done));
    EXPECT(!s.vi.recv_queue_empty());
}

void receive_is_flushed(Situation &s)
{
    VIP_DESCRIPTOR *done = nullptr;
    const Work work = s.memory.transfer(s.memory.bytes(16));
    post_recv(s.vi, work);
    REQUIRE_RC(VIP_DESCRIPTOR_ERROR, VipRecvDone(s.vi, &done));
    EXPECT(done == work.desc);
    EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, done);
    EXPECT_EQ(0u, done->CS.Length);
}

void send_is_executed(Situation &s)
{
    Memory far(s.peer_nic);
    const Work receive = far.transfer(far.bytes(16));
    post_recv(s.peer, receive);
    const Work work = s.memory.transfer(s.memory.text("executed"));
    post_send(s.vi, work);
    EXPECT(sent(s.vi) == work.desc);
    EXPECT_STATUS(VIP_STATUS_OP_SEND, work.desc);
    EXPECT(received(s.peer) == receive.desc);
}

void is_flushed(Situation &s, const Work &work, VIP_UINT32 op)
{
    VIP_DESCRIPTOR *done = nullptr;
    post_send(s.vi, work);
    REQUIRE_RC(VIP_DESCRIPTOR_ERROR, VipSendDone(s.vi, &done));
    EXPECT(done == work.desc);
    EXPECT_STATUS(op | VIP_STATUS_DESC_FLUSHED_ERROR, done);
    EXPECT_EQ(0u, done->CS.Length);
}

void send_is_flushed(Situation &s)
{
    const RemoteSpan remote{4096, 1234};
    const Span bytes = s.memory.text("never sent");
    is_flushed(s, s.memory.transfer(bytes), VIP_STATUS_OP_SEND);
    is_flushed(s, s.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, remote, bytes), VIP_STATUS_OP_RDMA_WRITE);
    is_flushed(s, s.memory.rdma(VIP_CONTROL_OP_RDMAREAD, remote, bytes), VIP_STATUS_OP_RDMA_READ);
    is_flushed(
        s,
        s.memory.rdma(VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE | VIP_CONTROL_QFENCE, remote, bytes),
        VIP_STATUS_OP_RDMA_WRITE);
    Work split = s.memory.work(3); // not of the usual kind
    split.op(VIP_CONTROL_OP_RDMAREAD).remote(remote).local(bytes.part(0, 2)).local(bytes.part(2, 2));
    is_flushed(s, split, VIP_STATUS_OP_RDMA_READ);
}

void change_is_made(Situation &s)
{
    VIP_VI_ATTRIBUTES attributes = s.vi.attributes();
    attributes.MaxTransferSize = 4711;
    REQUIRE_VIP(VipSetViAttributes(s.vi, &attributes));
    EXPECT_EQ(4711ul, s.vi.attributes().MaxTransferSize);
}

void change_is_refused(Situation &s)
{
    VIP_VI_ATTRIBUTES attributes = s.vi.attributes();
    const VIP_ULONG before = attributes.MaxTransferSize;
    attributes.MaxTransferSize = 4711;
    REQUIRE_RC(VIP_INVALID_STATE, VipSetViAttributes(s.vi, &attributes));
    EXPECT_EQ(before, s.vi.attributes().MaxTransferSize);
}

void destroy_succeeds(Situation &s)
{
    REQUIRE_VIP(VipDestroyVi(s.vi));
}

void destroy_is_refused(Situation &s)
{
    const VIP_VI_STATE before = s.vi.state();
    REQUIRE_RC(VIP_INVALID_STATE, VipDestroyVi(s.vi));
    EXPECT_EQ(before, s.vi.state());
}

void disconnect_makes_idle(Situation &s)
{
    REQUIRE_VIP(VipDisconnect(s.vi));
    EXPECT_EQ(VIP_STATE_IDLE, s.vi.state());
    REQUIRE_VIP(VipDisconnect(s.vi));
    REQUIRE_VIP(VipDestroyVi(s.vi));
}

void request_is_made(Situation &s)
{
    NetAddress local = s.nic.address("x"), remote = s.nic.address(unique_discriminator());
    REQUIRE_RC(VIP_NO_MATCH, VipConnectRequest(s.vi, local, remote, 0, nullptr));
    EXPECT_EQ(VIP_STATE_IDLE, s.vi.state());
}

void request_is_refused(Situation &s)
{
    const VIP_VI_STATE before = s.vi.state();
    NetAddress local = s.nic.address("x"), remote = s.nic.address(unique_discriminator());
    REQUIRE_RC(VIP_INVALID_STATE, VipConnectRequest(s.vi, local, remote, patience(), nullptr));
    EXPECT_EQ(before, s.vi.state());
}

void peer_request_is_made(Situation &s)
{
    NetAddress local = s.nic.address("x"), remote = s.nic.address(unique_discriminator());
    REQUIRE_VIP(VipConnectPeerRequest(s.vi, local, remote, patience()));
    EXPECT_EQ(VIP_STATE_CONNECT_PENDING, s.vi.state());
}

void peer_request_is_refused(Situation &s)
{
    const VIP_VI_STATE before = s.vi.state();
    NetAddress local = s.nic.address("x"), remote = s.nic.address(unique_discriminator());
    REQUIRE_RC(VIP_INVALID_STATE, VipConnectPeerRequest(s.vi, local, remote, patience()));
    EXPECT_EQ(before, s.vi.state());
}

void peer_done_is_not_done(Situation &s)
{
    REQUIRE_RC(VIP_NOT_DONE, VipConnectPeerDone(s.vi, nullptr));
    EXPECT_EQ(VIP_STATE_CONNECT_PENDING, s.vi.state());
}

void peer_done_is_refused(Situation &s)
{
    REQUIRE_RC(VIP_INVALID_STATE, VipConnectPeerDone(s.vi, nullptr));
}

void peer_wait_is_refused(Situation &s)
{
    REQUIRE_RC(VIP_INVALID_STATE, VipConnectPeerWait(s.vi, nullptr));
}

void data_is_remembered(Situation &s)
{
    REQUIRE_VIP(VipSetUserData(s.vi, &s));
    EXPECT(VipGetUserData(s.vi) == &s);
}

void waits_time_out(Situation &s)
{
    VIP_DESCRIPTOR *done = reinterpret_cast<VIP_DESCRIPTOR *>(&s);
    REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(s.vi, 0, &done));
    EXPECT(done == nullptr);
    done = reinterpret_cast<VIP_DESCRIPTOR *>(&s);
    REQUIRE_RC(VIP_TIMEOUT, VipSendWait(s.vi, kMoment, &done));
    EXPECT(done == nullptr);
}

void dones_are_not_done(Situation &s)
{
    VIP_DESCRIPTOR *done = reinterpret_cast<VIP_DESCRIPTOR *>(&s);
    REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(s.vi, &done));
    EXPECT(done == nullptr);
    done = reinterpret_cast<VIP_DESCRIPTOR *>(&s);
    REQUIRE_RC(VIP_NOT_DONE, VipSendDone(s.vi, &done));
    EXPECT(done == nullptr);
}

struct Row {
    const char *function;
    const char *level;
    const char *what[4];
    Event event[4]; // IDLE, CONNECTED, CONNECT_PENDING, ERROR: the order of VIP_VI_STATE
};

#define SAME(x) \
    { \
        x, x, x, x \
    }
#define REFUSED "VIP_INVALID_STATE"

const Row kTable[] = {
    {"VipPostRecv",
     "early",
     {"queued", "queued", "queued", "flushed at once"},
     {receive_stays_queued_over_disconnect, receive_is_queued, receive_is_queued, receive_is_flushed}},
    {"VipPostSend",
     "early",
     {"flushed at once", "executed", "flushed at once", "flushed at once"},
     {send_is_flushed, send_is_executed, send_is_flushed, send_is_flushed}},
    {"VipSetViAttributes",
     "full",
     {"changed", REFUSED, REFUSED, REFUSED},
     {change_is_made, change_is_refused, change_is_refused, change_is_refused}},
    {"VipDestroyVi",
     "early",
     {"destroyed", REFUSED, REFUSED, REFUSED},
     {destroy_succeeds, destroy_is_refused, destroy_is_refused, destroy_is_refused}},
    {"VipDisconnect", "early", {"still idle", "idle", "idle", "idle"}, SAME(disconnect_makes_idle)},
    {"VipConnectRequest",
     "early",
     {"asked", REFUSED, REFUSED, REFUSED},
     {request_is_made, request_is_refused, request_is_refused, request_is_refused}},
    {"VipConnectPeerRequest",
     "functional",
     {"pending", REFUSED, REFUSED, REFUSED},
     {peer_request_is_made, peer_request_is_refused, peer_request_is_refused, peer_request_is_refused}},
    {"VipConnectPeerDone",
     "functional",
     {REFUSED, REFUSED, "VIP_NOT_DONE", REFUSED},
     {peer_done_is_refused, peer_done_is_refused, peer_done_is_not_done, peer_done_is_refused}},
    {"VipConnectPeerWait",
     "functional",
     {REFUSED, REFUSED, nullptr, REFUSED},
     {peer_wait_is_refused, peer_wait_is_refused, nullptr, peer_wait_is_refused}},
    {"VipSetUserData", "functional", SAME("remembered"), SAME(data_is_remembered)},
    {"VipRecvWait", "early", SAME("VIP_TIMEOUT on empty queues"), SAME(waits_time_out)},
    {"VipRecvDone", "early", SAME("VIP_NOT_DONE on empty queues"), SAME(dones_are_not_done)},
};

bool register_table()
{
    static const char *const states[] = {"idle", "connected", "pending", "broken"};
    for (const Row &row : kTable) {
        for (int state = 0; state < 4; ++state) {
            const Event event = row.event[state];
            if (event == nullptr) {
                continue; // blocks by design: test_peer.cpp
            }
            register_case(std::string(row.function) + " on a VI that is " + states[state] + ": " +
                              row.what[state],
                          std::string("[") + row.function + "][" + row.level + "]", CATCH_INTERNAL_LINEINFO,
                          [event, state] {
                              Situation situation(static_cast<VIP_VI_STATE>(state));
                              event(situation);
                          });
        }
    }
    return true;
}

[[maybe_unused]] const bool registered = register_table();

} // namespace

// --- what is behind others when the connection breaks ---

namespace {

constexpr VIP_UINT16 kMixed[] = {VIP_CONTROL_OP_SENDRECV,
                                 VIP_CONTROL_OP_RDMAWRITE,
                                 VIP_CONTROL_OP_RDMAREAD,
                                 VIP_CONTROL_OP_RDMAREAD | VIP_CONTROL_QFENCE,
                                 VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_QFENCE,
                                 VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_QFENCE};

VIP_UINT32 operation(VIP_UINT16 control)
{
    constexpr VIP_UINT32 ops[] = {VIP_STATUS_OP_SEND, VIP_STATUS_OP_RDMA_WRITE, VIP_STATUS_OP_RDMA_READ};
    return ops[control & VIP_CONTROL_OP_MASK];
}

/** It has no receive: the first send breaks the connection. */
void has_no_receive(Peer &peer)
{
    Endpoint end(peer);
    Memory open(peer.nic(), 4096, rdma_memory());
    end.connect();
    peer.send(open.bytes(64).remote());
    end.vi.await(VIP_STATE_ERROR);
    peer.sync();
}

/** Posts one of each, and reaps them. Returns how many were flushed. */
unsigned round_of(Endpoint &end, const std::vector<Work> &works)
{
    unsigned flushed = 0;
    for (const Work &work : works) {
        post_send(end.vi, work);
    }
    for (const Work &work : works) {
        VIP_DESCRIPTOR *done = nullptr;
        const VIP_RETURN rc = VipSendWait(end.vi, patience(), &done);
        EXPECT(rc == VIP_SUCCESS || rc == VIP_DESCRIPTOR_ERROR);
        EXPECT(done == work.desc);
        EXPECT_EQ(operation(done->CS.Control), done->CS.Status & VIP_STATUS_OP_MASK);
        flushed += (done->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0 ? 1 : 0;
    }
    return flushed;
}

void posts_a_mixture(Peer &peer)
{
    Endpoint end(peer);
    std::vector<Work> works;
    end.connect();
    const auto remote = peer.receive<RemoteSpan>();
    for (const VIP_UINT16 control : kMixed) {
        const Span bytes = end.memory.bytes(64);
        const bool rdma = (control & VIP_CONTROL_OP_MASK) != VIP_CONTROL_OP_SENDRECV;
        works.push_back(rdma ? end.memory.rdma(control, remote, bytes)
                             : end.memory.transfer(bytes).op(control));
    }
    for (unsigned rounds = 0; round_of(end, works) == 0; ++rounds) {
        EXPECT(rounds < 1000000); // until the first send has broken the connection
    }
    peer.sync();
}

} // namespace

TWO_ROLE_CASE_RELIABLE("what is flushed behind others says which operation it was",
                       "[VipPostSend][full]") = {has_no_receive, posts_a_mixture};
