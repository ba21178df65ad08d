// SPDX-License-Identifier: MIT
//
// POSIX extensions: objects that a process and its children share. What each may do with them, and
// who gets a completion.
#include <vipl/posix.h>

#include <atomic>
#include <vector>

#include "mixed.hpp"

using namespace vipl_conformance;

// --- one object ----------------------------------------------------------------------------------

TEST_CASE("parent and child post, reap, wait and ask on one VI", "[sharing][posix]")
{
    Mixed world;
    const Work first = world.receive();
    const Work second = world.memory.transfer(world.memory.bytes(64));
    const Work answer = world.memory.transfer(world.memory.text("the child's"));
    const Gate posted;
    Fork child([&] {
        EXPECT_EQ(VIP_STATE_CONNECTED, world.server.state());
        EXPECT(received(world.server) == first.desc); // which the parent has posted
        EXPECT_EQ("to the child", said(first));
        post_recv(world.server, second);
        post_send(world.server, answer);
        posted.open();
    });
    const Work back = world.client_receive();
    world.client_says("to the child");
    posted.pass();
    EXPECT(sent(world.server) == answer.desc); // which the child has posted
    EXPECT(received(world.client) == back.desc);
    EXPECT_EQ("the child's", said(back));
    world.client_says("to the parent");
    EXPECT(received(world.server) == second.desc);
    EXPECT_EQ("to the parent", said(second));
    child.finish();
}

TEST_CASE("parent and child see the same attributes and user data", "[sharing][posix]")
{
    Mixed world;
    const Ptag tag(world.nic);
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    attributes.Ptag = tag;
    const Vi tagged(world.nic, attributes);
    const VIP_NIC_ATTRIBUTES limits = world.nic.attributes();
    int here = 0;
    Fork child([&] {
        const VIP_NIC_ATTRIBUTES seen = world.nic.attributes();
        EXPECT_EQ(std::string(reinterpret_cast<const char *>(limits.Name)),
                  std::string(reinterpret_cast<const char *>(seen.Name)));
        EXPECT_EQ(limits.MaxVI, seen.MaxVI);
        EXPECT(tagged.attributes().Ptag == tag);
        VIP_MEM_ATTRIBUTES memory{};
        REQUIRE_VIP(VipQueryMem(world.nic, world.memory.data(), world.memory.handle(), &memory));
        EXPECT_EQ(VIP_TRUE, memory.EnableRdmaWrite);
        REQUIRE_VIP(VipSetUserData(tagged, &here));
        attributes.MaxTransferSize = 512;
        REQUIRE_VIP(VipSetViAttributes(tagged, &attributes));
        const Vi another(world.nic, attributes); // with the inherited tag
    });
    child.finish();
    EXPECT(VipGetUserData(tagged) == &here);
    EXPECT_EQ(512ul, tagged.attributes().MaxTransferSize);
}

TEST_CASE("a request that the parent has taken is the child's to accept", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    const Nic own(device_under_test(), false);
    const Vi server(nic), client(own);
    const std::string name = unique_discriminator();
    Requester requester(own, client, name);
    const VIP_CONN_HANDLE request = take_request(nic, name);
    Fork child([&] { REQUIRE_VIP(VipConnectAccept(request, server)); });
    child.finish();
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectAccept(request, server)); // it is answered
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipConnectReject(request));
    REQUIRE_VIP(requester.wait());
    EXPECT_EQ(VIP_STATE_CONNECTED, server.state());
}

TEST_CASE("a child connects and disconnects a VI of its parent's", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    const Nic own(device_under_test(), false);
    const Vi requesting(nic), accepting(own);
    for (int round = 0; round < 3; ++round) {
        const std::string name = unique_discriminator();
        Fork child([&] {
            NetAddress local = nic.address(name + "c"), remote = nic.address(name);
            REQUIRE_VIP(VipConnectRequest(requesting, local, remote, patience(), nullptr));
        });
        const VIP_CONN_HANDLE request = take_request(own, name);
        REQUIRE_VIP(VipConnectAccept(request, accepting));
        child.finish();
        EXPECT_EQ(VIP_STATE_CONNECTED, requesting.state()); // the child's end does not disconnect it
        Fork other([&] { REQUIRE_VIP(VipDisconnect(requesting)); });
        other.finish();
        EXPECT_EQ(VIP_STATE_IDLE, requesting.state());
        accepting.await(VIP_STATE_ERROR);
        REQUIRE_VIP(VipDisconnect(accepting));
    }
}

// --- completions ---------------------------------------------------------------------------------

namespace {

constexpr unsigned kMessages = 240, kReapers = 4;

/** How often each of many receives was reaped, where all see it. */
struct Tally {
    explicit Tally(Memory &memory)
        : total(reinterpret_cast<std::atomic<unsigned> *>(memory.bytes(sizeof(unsigned)).data)),
          times(reinterpret_cast<std::atomic<unsigned> *>(memory.bytes(kMessages * sizeof(unsigned)).data))
    {
    }
    void note(const std::vector<Work> &works, const VIP_DESCRIPTOR *done) const
    {
        unsigned i = 0;
        while (i < kMessages && works[i].desc != done) {
            ++i;
        }
        EXPECT(i < kMessages);
        times[i]++;
        (*total)++;
    }
    void expect_each_once() const
    {
        for (unsigned i = 0; i < kMessages; ++i) {
            EXPECT_EQ(1u, times[i].load());
        }
    }

    std::atomic<unsigned> *total, *times;
};

} // namespace

TEST_CASE("of processes that reap one VI each completion reaches exactly one", "[sharing][posix]")
{
    Mixed world;
    const Tally tally(world.memory);
    std::vector<Work> works;
    for (unsigned i = 0; i < kMessages; ++i) {
        works.push_back(world.receive(8));
    }
    const auto reap = [&] {
        const unsigned long long end = now_ms() + patience();
        while (*tally.total < kMessages && now_ms() < end) {
            VIP_DESCRIPTOR *done = nullptr;
            const VIP_RETURN rc = VipRecvWait(world.server, kMoment, &done);
            if (rc != VIP_TIMEOUT) {
                REQUIRE_VIP(rc);
                tally.note(works, done);
            }
        }
    };
    std::vector<std::unique_ptr<Fork>> reapers;
    for (unsigned i = 0; i < kReapers; ++i) {
        reapers.push_back(std::make_unique<Fork>(reap));
    }
    const Work message = world.own_memory.transfer(world.own_memory.text("message"));
    for (unsigned i = 0; i < kMessages; ++i) {
        post_send(world.client, message);
        sent(world.client);
    }
    reap();
    for (const auto &reaper : reapers) {
        reaper->finish();
    }
    EXPECT_EQ(kMessages, tally.total->load());
    tally.expect_each_once();
}

TEST_CASE("of processes that wait on one completion queue each completion reaches exactly one",
          "[sharing][posix]")
{
    constexpr unsigned kVis = 8;
    const Nic nic(device_under_test(), true), own(device_under_test(), false);
    Memory memory(nic, 1 << 20), own_memory(own);
    const Tally tally(memory);
    const Cq cq(nic, kMessages);
    std::vector<std::unique_ptr<Vi>> servers, clients;
    std::vector<Work> works;
    for (unsigned i = 0; i < kVis; ++i) {
        servers.push_back(std::make_unique<Vi>(nic, vi_attributes(), nullptr, cq));
        clients.push_back(std::make_unique<Vi>(own));
        for (unsigned j = 0; j < kMessages / kVis; ++j) {
            works.push_back(memory.transfer(memory.bytes(8)));
            post_recv(*servers[i], works.back());
        }
        connect_pair(nic, *servers[i], own, *clients[i]);
    }
    const auto reap = [&] {
        const unsigned long long end = now_ms() + patience();
        while (*tally.total < kMessages && now_ms() < end) {
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN recv = VIP_FALSE;
            VIP_DESCRIPTOR *done = nullptr;
            const VIP_RETURN rc = VipCQWait(cq, kMoment, &vi, &recv);
            if (rc != VIP_TIMEOUT) {
                REQUIRE_VIP(rc);
                EXPECT_EQ(VIP_TRUE, recv);
                REQUIRE_VIP(VipRecvDone(vi, &done)); // who is told has one
                tally.note(works, done);
            }
        }
    };
    std::vector<std::unique_ptr<Fork>> reapers;
    for (unsigned i = 0; i < kReapers; ++i) {
        reapers.push_back(std::make_unique<Fork>(reap));
    }
    const Work message = own_memory.transfer(own_memory.text("message"));
    for (unsigned i = 0; i < kMessages; ++i) {
        post_send(*clients[i % kVis], message);
        sent(*clients[i % kVis]);
    }
    reap();
    for (const auto &reaper : reapers) {
        reaper->finish();
    }
    EXPECT_EQ(kMessages, tally.total->load());
    tally.expect_each_once();
}

// --- beside private objects, and what is refused -------------------------------------------------

TEST_CASE("private objects beside shared ones stay the parent's", "[sharing][posix]")
{
    Mixed world;
    const Cq own_cq(world.own);
    VIP_VI_HANDLE vi = nullptr;
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipCreateVi(world.nic, &attributes, nullptr, own_cq, &vi));
    const Cq shared_cq(world.nic);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipCreateVi(world.own, &attributes, nullptr, shared_cq, &vi));
    Fork child([&] {
        VIP_NIC_ATTRIBUTES limits{};
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryNic(world.own, &limits));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipRecvDone(world.client, &done));
        REQUIRE_VIP(VipQueryNic(world.nic, &limits));
        Mixed of_child; // both kinds, made afresh
        of_child.exchange();
    });
    child.finish();
    world.exchange();
}

TEST_CASE("memory that is not shared is refused on a shareable NIC handle", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    const Memory memory(nic, 65536);
    alignas(64) static char elsewhere[4096];
    VIP_MEM_HANDLE handle = 0;
    VIP_MEM_ATTRIBUTES attributes{};
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipRegisterMem(nic, elsewhere, sizeof elsewhere, &attributes, &handle));
    REQUIRE_RC(VIP_INVALID_PARAMETER,
               VipRegisterMem(nic, memory.data(), ~VIP_ULONG(0), &attributes, &handle));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipRegisterMem(nic, nullptr, 64, &attributes, &handle));
    REQUIRE_VIP(VipRegisterMem(nic, memory.data() + 64, 64, &attributes, &handle));
    REQUIRE_VIP(VipDeregisterMem(nic, memory.data() + 64, handle));
}

TEST_CASE("shared memory is cleared, aligned, and at one address in all processes", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    const Gate made;
    VIP_PVOID first = nullptr;
    REQUIRE_VIP(VipxAllocShared(1, &first)); // so that the child before has something, too
    std::memset(first, 1, 1);
    Fork before([&] {
        VIP_PVOID where[2] = {first, nullptr};
        made.pass();
        std::memcpy(&where[1], first, sizeof where[1]);
        const auto *bytes = static_cast<unsigned char *>(where[1]);
        EXPECT_EQ(7, bytes[0]);
        EXPECT_EQ(7, bytes[199999]);
    });
    VIP_PVOID second = nullptr;
    REQUIRE_VIP(VipxAllocShared(200000, &second));
    EXPECT_EQ(0u, static_cast<unsigned>(reinterpret_cast<uintptr_t>(second) % 65536));
    auto *bytes = static_cast<unsigned char *>(second);
    for (size_t i = 0; i < 200000; ++i) {
        EXPECT(bytes[i] == 0);
        bytes[i] = 7;
    }
    std::memcpy(first, &second, sizeof second);
    made.open();
    before.finish();
    REQUIRE_VIP(VipxFreeShared(second));
    REQUIRE_VIP(VipxFreeShared(first));
    VIP_PVOID again = nullptr;
    REQUIRE_VIP(VipxAllocShared(400000, &again));
    bytes = static_cast<unsigned char *>(again);
    for (size_t i = 0; i < 400000; ++i) {
        EXPECT(bytes[i] == 0);
    }
    REQUIRE_VIP(VipxFreeShared(again));
}

TEST_CASE("shared memory is given back by the last that holds it", "[sharing][posix]")
{
    const Nic nic(device_under_test(), true);
    VIP_PVOID memory = nullptr;
    REQUIRE_VIP(VipxAllocShared(4096, &memory));
    const Gate go, done;
    Fork child([&] {
        go.pass();
        EXPECT_EQ(42, static_cast<int>(*static_cast<unsigned char *>(memory)));
        REQUIRE_VIP(VipxFreeShared(memory));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeShared(memory));
        done.open();
    });
    *static_cast<unsigned char *>(memory) = 42;
    REQUIRE_VIP(VipxFreeShared(memory));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeShared(memory));
    for (int i = 0; i < 50; ++i) { // the child has it: nobody else gets it
        VIP_PVOID other = nullptr;
        REQUIRE_VIP(VipxAllocShared(4096, &other));
        EXPECT(other != memory);
        REQUIRE_VIP(VipxFreeShared(other));
    }
    go.open();
    done.pass();
    child.finish();
}

TEST_CASE("VipxAllocShared and VipxFreeShared refuse what is none", "[VipxAllocShared][posix]")
{
    const Nic nic(device_under_test(), true);
    VIP_PVOID memory = &memory;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxAllocShared(0, &memory));
    EXPECT(memory == nullptr);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxAllocShared(64, nullptr));
    memory = &memory;
    REQUIRE_RC(VIP_ERROR_RESOURCE, VipxAllocShared(~VIP_ULONG(0), &memory));
    EXPECT(memory == nullptr);
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeShared(nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeShared(&memory));
    REQUIRE_VIP(VipxAllocShared(100000, &memory));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxFreeShared(static_cast<char *>(memory) + 64));
    REQUIRE_VIP(VipxFreeShared(memory));
}

TEST_CASE("VipxOpenNic refuses what it does not know", "[VipxOpenNic][posix]")
{
    VIP_NIC_HANDLE nic = nullptr;
    for (const VIP_ULONG flags : {VIP_ULONG(64), VIPX_SHAREABLE | VIPX_INLINE, VIPX_SHAREABLE | VIPX_QUIET,
                                  VIPX_SHAREABLE | VIPX_SPIN, ~VIP_ULONG(0)}) {
        nic = &nic;
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipxOpenNic(device_under_test(), flags, &nic));
        EXPECT(nic == nullptr);
    }
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxOpenNic(device_under_test(), VIPX_SHAREABLE, nullptr));
    const VIP_RETURN strange = VipOpenNic("no such device", &nic);
    REQUIRE_RC(strange, VipxOpenNic("no such device", VIPX_SHAREABLE, &nic));
    EXPECT(nic == nullptr);
    REQUIRE_VIP(VipxOpenNic(device_under_test(), 0, &nic));
    Fork child([&] { // a private one
        VIP_NIC_ATTRIBUTES attributes{};
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryNic(nic, &attributes));
    });
    child.finish();
    REQUIRE_VIP(VipCloseNic(nic));
}
