// SPDX-License-Identifier: MIT
//
// POSIX extensions: an object that a process made after a fork is its own and its later children's.
// To a process that does not hold it, its handle is that of nothing: no function takes it, and no
// completion queue names it.
#include <vipl/posix.h>

#include <array>
#include <atomic>

#include "family.hpp"
#include "support/net_address.hpp"

using namespace vipl_conformance;

namespace {

/** What the parent makes when its child is there already. */
struct Late {
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi, connected;
    VIP_CQ_HANDLE cq;
    VIP_PROTECTION_HANDLE tag;
    VIP_PVOID memory;
    VIP_MEM_HANDLE region;
    VIP_DESCRIPTOR *posted; // which is complete
};

#define UNKNOWN(call) REQUIRE_RC(VIP_INVALID_PARAMETER, call)

/** The child has its own NIC handle, memory and VI; the parent's are nothing to it. */
void expect_unknown_vi(const Nic &nic, Memory &memory, VIP_VI_HANDLE vi)
{
    const Work work = memory.transfer(memory.bytes(8));
    VIP_DESCRIPTOR *done = nullptr;
    VIP_VI_STATE state;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    NetAddress local = nic.address("late"), remote = nic.address("later");
    int fd = -1;
    UNKNOWN(VipRecvDone(vi, &done));
    UNKNOWN(VipSendDone(vi, &done));
    UNKNOWN(VipRecvWait(vi, 0, &done));
    UNKNOWN(VipSendWait(vi, 0, &done));
    UNKNOWN(VipRecvWait(vi, patience(), &done));
    UNKNOWN(VipPostRecv(vi, work.desc, work.handle));
    UNKNOWN(VipPostSend(vi, work.desc, work.handle));
    UNKNOWN(VipQueryVi(vi, &state, nullptr, nullptr, nullptr));
    UNKNOWN(VipSetViAttributes(vi, &attributes));
    UNKNOWN(VipSetUserData(vi, nullptr));
    EXPECT(VipGetUserData(vi) == nullptr);
    UNKNOWN(VipConnectRequest(vi, local, remote, 0, nullptr));
    UNKNOWN(VipConnectPeerRequest(vi, local, remote, 0));
    UNKNOWN(VipConnectPeerDone(vi, &attributes));
    UNKNOWN(VipConnectPeerWait(vi, &attributes));
    UNKNOWN(VipSendNotify(vi, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) {}));
    UNKNOWN(VipRecvNotify(vi, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR *) {}));
    UNKNOWN(VipxGetFd(VIPX_FD_SEND, vi, &fd));
    UNKNOWN(VipxGetFd(VIPX_FD_RECV, vi, &fd));
    VIPX_VI_STATISTICS statistics{};
    statistics.ViHandle = vi;
    UNKNOWN(VipQuerySystemManagementInfo(nic, VIPX_SMI_VI_STATISTICS, &statistics));
    UNKNOWN(VipDisconnect(vi));
    UNKNOWN(VipDestroyVi(vi));
}

void expect_unknown_cq(const Nic &nic, VIP_CQ_HANDLE cq)
{
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    int fd = -1;
    UNKNOWN(VipCQDone(cq, &vi, &recv));
    UNKNOWN(VipCQWait(cq, 0, &vi, &recv));
    UNKNOWN(VipCQWait(cq, patience(), &vi, &recv));
    UNKNOWN(VipResizeCQ(cq, 8));
    UNKNOWN(VipCQNotify(cq, nullptr, [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) {}));
    UNKNOWN(VipxGetFd(VIPX_FD_CQ, cq, &fd));
    UNKNOWN(VipCreateVi(nic, &attributes, nullptr, cq, &vi));
    UNKNOWN(VipCreateVi(nic, &attributes, cq, nullptr, &vi));
    UNKNOWN(VipDestroyCQ(cq));
}

void expect_unknown_nic(const Late &late)
{
    VIP_NIC_ATTRIBUTES limits{};
    VIP_NIC_HANDLE nic = late.nic;
    void *made = nullptr;
    VIP_MEM_HANDLE region = 0;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    VIPX_NIC_STATISTICS statistics{};
    int fd = -1;
    UNKNOWN(VipQueryNic(nic, &limits));
    UNKNOWN(VipCreatePtag(nic, &made));
    UNKNOWN(VipCreateCQ(nic, 8, &made));
    UNKNOWN(VipCreateVi(nic, &attributes, nullptr, nullptr, &made));
    UNKNOWN(VipRegisterMem(nic, late.memory, 8, nullptr, &region));
    UNKNOWN(VipxGetFd(VIPX_FD_CONNECT, nic, &fd));
    UNKNOWN(VipErrorCallback(nic, nullptr, nullptr));
    UNKNOWN(VipQuerySystemManagementInfo(nic, VIPX_SMI_NIC_STATISTICS, &statistics));
    UNKNOWN(VipxSetRestart(nic, VIP_TRUE));
    UNKNOWN(VipCloseNic(nic));
}

void expect_unknown_tag_and_memory(const Nic &nic, const Late &late)
{
    VIP_MEM_ATTRIBUTES memory{};
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    VIP_VI_HANDLE vi = nullptr;
    attributes.Ptag = late.tag;
    REQUIRE_RC(VIP_INVALID_PTAG, VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
    UNKNOWN(VipDestroyPtag(nic, late.tag));
    UNKNOWN(VipQueryMem(nic, late.memory, late.region, &memory));
    UNKNOWN(VipSetMemAttributes(nic, late.memory, late.region, &memory));
    UNKNOWN(VipDeregisterMem(nic, late.memory, late.region));
    UNKNOWN(VipxFreeShared(late.memory));
}

/** Where two processes see it. */
template <class T>
T *shared_value(Memory &memory)
{
    return new (memory.bytes(sizeof(T)).data) T();
}

} // namespace

TEST_CASE("what a process makes after a fork is unknown to the child, to every function", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    Memory memory(nic);
    auto *const late = shared_value<Late>(memory);
    const Gate made, looked;
    Fork child([&] {
        Memory of_child(nic);
        const Vi vi(nic);
        made.pass();
        expect_unknown_vi(nic, of_child, late->vi);
        expect_unknown_vi(nic, of_child, late->connected);
        expect_unknown_cq(nic, late->cq);
        expect_unknown_nic(*late);
        expect_unknown_tag_and_memory(nic, *late);
        looked.open();
    });
    const Nic second(device_under_test(), true);
    const Cq cq(nic);
    const Ptag tag(nic);
    Memory region(nic);
    const Vi vi(nic), server(nic), client(nic);
    connect_pair(nic, server, nic, client);
    const Work in = region.transfer(region.bytes(8));
    post_recv(server, in);
    post_send(client, region.transfer(region.text("complete")));
    sent(client);
    while (server.recv_queue_empty()) { // until it is complete: then something could be taken
    }
    *late = {second, vi, server, cq, tag, region.data(), region.handle(), in.desc};
    made.open();
    child.finish();
    EXPECT_EQ(VIP_STATE_IDLE, vi.state()); // and nothing has happened to any of it
    EXPECT_EQ(VIP_STATE_CONNECTED, server.state());
    EXPECT(received(server) == in.desc);
    EXPECT_EQ(nic.attributes().MaxVI, second.attributes().MaxVI);
    VIP_MEM_ATTRIBUTES attributes{};
    REQUIRE_VIP(VipQueryMem(nic, region.data(), region.handle(), &attributes));
}

TEST_CASE("what a child makes is unknown to its parent, and a request is unknown to who did not take it",
          "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    Memory memory(nic);
    const Vi spare(nic);
    auto *const handles = shared_value<std::array<void *, 3>>(memory);
    const Gate made, looked;
    const std::string name = unique_discriminator();
    Fork child([&] {
        const Vi vi(nic);
        const Cq cq(nic);
        const VIP_CONN_HANDLE request = take_request(nic, name);
        (*handles)[0] = vi;
        (*handles)[1] = cq;
        (*handles)[2] = request;
        made.open();
        looked.pass();
        REQUIRE_VIP(VipConnectAccept(request, vi));
    });
    const Vi client(nic);
    Requester requester(nic, client, name);
    made.pass();
    expect_unknown_vi(nic, memory, (*handles)[0]);
    expect_unknown_cq(nic, (*handles)[1]);
    UNKNOWN(VipConnectAccept((*handles)[2], spare));
    UNKNOWN(VipConnectReject((*handles)[2]));
    looked.open();
    REQUIRE_VIP(requester.wait());
    child.finish();
}

TEST_CASE("a request is not accepted with a VI that the process does not hold", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true), own(device_under_test(), false);
    Memory memory(nic);
    const Vi server(nic), client(own);
    auto *const late = shared_value<VIP_VI_HANDLE>(memory);
    const std::string name = unique_discriminator();
    Requester requester(own, client, name);
    const VIP_CONN_HANDLE request = take_request(nic, name);
    const Gate made;
    Fork child([&] {
        made.pass();
        UNKNOWN(VipConnectAccept(request, *late));
        REQUIRE_VIP(VipConnectAccept(request, server));
    });
    const Vi vi(nic);
    *late = vi;
    made.open();
    child.finish();
    EXPECT_EQ(VIP_STATE_IDLE, vi.state());
    REQUIRE_VIP(requester.wait());
}

namespace {

/** What a completion queue has told of. */
VIP_DESCRIPTOR *taken(VIP_VI_HANDLE vi)
{
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_VIP(VipRecvDone(vi, &done));
    return done;
}

/** A completion queue that a child has, and a VI on it that the child does not hold. */
struct Foreign {
    void connect(VIP_VI_HANDLE vi) { connect_pair(nic, vi, own, client); }
    Work arrive(VIP_VI_HANDLE vi)
    {
        const Work in = memory.transfer(memory.bytes(8));
        post_recv(vi, in);
        post_send(client, own_memory.transfer(own_memory.text("x")));
        sent(client);
        return in;
    }

    Nic nic{device_under_test(), true}, own{device_under_test(), false};
    Memory memory{nic, 1 << 20}, own_memory{own};
    Cq cq{nic};
    Vi client{own};
};

} // namespace

TEST_CASE("a completion queue names no VI to a process that does not hold it, and loses nothing",
          "[sharing][posix]")
{
    Foreign world;
    const Gate polls, polled, waits;
    auto *const go_on = shared_value<std::atomic<bool>>(world.memory);
    Fork child([&] {
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        polls.pass();
        for (int i = 0; i < 20; ++i) {
            REQUIRE_RC(VIP_NOT_DONE, VipCQDone(world.cq, &vi, &recv));
        }
        REQUIRE_RC(VIP_TIMEOUT, VipCQWait(world.cq, kMoment, &vi, &recv));
        polled.open();
        while (!*go_on) { // beside the parent, which waits too
            REQUIRE_RC(VIP_TIMEOUT, VipCQWait(world.cq, 1, &vi, &recv));
        }
    });
    const Vi vi(world.nic, vi_attributes(), nullptr, world.cq);
    world.connect(vi);
    for (int round = 0; round < 3; ++round) {
        const Work in = world.arrive(vi);
        if (round == 0) {
            polls.open();
            polled.pass();
        }
        within_a_second([&] {
            world.cq.expect(vi, VIP_TRUE);
            return true;
        });
        EXPECT(taken(vi) == in.desc);
    }
    *go_on = true;
    child.finish();
}

TEST_CASE("a VI's completions pass by a process that does not hold it, and its own come", "[sharing][posix]")
{
    Foreign world;
    const Vi held(world.nic, vi_attributes(), nullptr, world.cq);
    const Gate ready;
    Work mine;
    world.connect(held);
    mine = world.memory.transfer(world.memory.bytes(8));
    post_recv(held, mine);
    Fork child([&] {
        ready.pass();
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        REQUIRE_VIP(VipCQWait(world.cq, patience(), &vi, &recv));
        EXPECT(vi == held);
        EXPECT(taken(held) == mine.desc);
    });
    const Vi late(world.nic, vi_attributes(), nullptr, world.cq), other(world.own);
    connect_pair(world.nic, late, world.own, other);
    const Work in = world.memory.transfer(world.memory.bytes(8));
    post_recv(late, in);
    post_send(other,
              world.own_memory.transfer(world.own_memory.text("first"))); // before the child's in the queue
    sent(other);
    ready.open();
    post_send(world.client, world.own_memory.transfer(world.own_memory.text("second")));
    sent(world.client);
    child.finish();
    world.cq.expect(late, VIP_TRUE);
    EXPECT(taken(late) == in.desc);
}

TEST_CASE("a handler on a completion queue is told of no VI that its process does not hold",
          "[sharing][posix]")
{
    static std::atomic<int> calls;
    Foreign world;
    const Gate registered, end;
    Fork child([&] {
        calls = 0;
        REQUIRE_VIP(VipCQNotify(world.cq, nullptr,
                                [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) { calls++; }));
        registered.open();
        end.pass();
        EXPECT_EQ(0, calls.load());
    });
    registered.pass();
    const Vi vi(world.nic, vi_attributes(), nullptr, world.cq);
    world.connect(vi);
    const Work in = world.arrive(vi);
    world.cq.expect(vi, VIP_TRUE);
    EXPECT(taken(vi) == in.desc);
    calls = 0; // a handler of the parent's comes after the child's, and is called
    REQUIRE_VIP(VipCQNotify(world.cq, nullptr,
                            [](VIP_PVOID, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_BOOLEAN) { calls++; }));
    const Work next = world.arrive(vi);
    const unsigned long long limit = now_ms() + patience();
    while (calls == 0 && now_ms() < limit) {
        give_way();
    }
    EXPECT_EQ(1, calls.load());
    EXPECT(taken(vi) == next.desc);
    end.open();
    child.finish();
}
