// SPDX-License-Identifier: MIT
//
// Many VIs: 65,536 on one NIC handle, created within half a minute, used, destroyed and created
// again; 2,000 connections between two processes that report to one completion queue and cost no
// descriptor of their own.
#include "stress.hpp"

#include <set>

#include "census.hpp"

using namespace stress;

namespace {

constexpr unsigned kMany = 65536, kPairs = 2000;

void create_many(const Nic &nic, std::vector<VIP_VI_HANDLE> &vis)
{
    VIP_VI_ATTRIBUTES attributes = vi_attributes();
    for (unsigned i = 0; i < kMany; ++i) {
        VIP_VI_HANDLE vi = nullptr;
        REQUIRE_VIP(VipCreateVi(nic, &attributes, nullptr, nullptr, &vi));
        REQUIRE_VIP(VipSetUserData(vi, &vis[i]));
        vis[i] = vi;
    }
}

/** One side of the 2,000 connections: each VI has one receive and one send of 64 bytes. */
struct Crowd {
    Crowd() : memory(nic, kPairs * 4 * 64 + 4096), cq(nic, 2 * kPairs)
    {
        const Span out = memory.bytes(64);
        for (unsigned i = 0; i < kPairs; ++i) {
            VIP_VI_ATTRIBUTES attributes = vi_attributes();
            VIP_VI_HANDLE vi = nullptr;
            REQUIRE_VIP(VipCreateVi(nic, &attributes, cq, cq, &vi));
            vis.push_back(vi);
            works.push_back(memory.transfer(out).immediate(i).op(VIP_CONTROL_IMMEDIATE));
            post_recv(vi, memory.transfer(memory.bytes(64)));
        }
    }
    ~Crowd()
    {
        for (const VIP_VI_HANDLE vi : vis) {
            VipDisconnect(vi);
            VipDestroyVi(vi);
        }
    }

    /** Send on every VI; every VI sends and receives once, its own number. */
    void exchange()
    {
        for (unsigned i = 0; i < kPairs; ++i) {
            post_send(vis[i], works[i]);
        }
        std::set<VIP_VI_HANDLE> sent_on, received_on;
        while (sent_on.size() < kPairs || received_on.size() < kPairs) {
            VIP_VI_HANDLE vi = nullptr;
            VIP_BOOLEAN receive = VIP_FALSE;
            VIP_DESCRIPTOR *done = nullptr;
            REQUIRE_VIP(VipCQWait(cq, 2 * patience(), &vi, &receive));
            REQUIRE_VIP(receive ? VipRecvDone(vi, &done) : VipSendDone(vi, &done));
            EXPECT((receive ? received_on : sent_on).insert(vi).second);
            if (receive) {
                EXPECT(vis.at(done->CS.ImmediateData) == vi);
            }
        }
    }

    Nic nic;
    Memory memory;
    Cq cq;
    std::vector<VIP_VI_HANDLE> vis;
    std::vector<Work> works;
};

void other_crowd(const Scene &scene, Line &line)
{
    Crowd crowd;
    for (const VIP_VI_HANDLE vi : crowd.vis) {
        REQUIRE_VIP(request_to(crowd.nic, scene.name(), vi));
    }
    line.receive<char>();
    crowd.exchange();
    line.sync();
    line.sync(); // both are counted
}

void connect_crowds(const char *pull)
{
    use_pull(pull);
    const Scene scene = make_scene(pull);
    Child child(other_crowd, scene);
    Crowd crowd;
    unsigned with_one = 0;
    for (unsigned i = 0; i < kPairs; ++i) {
        REQUIRE_VIP(accept_on(crowd.nic, scene.name(), crowd.vis[i]));
        with_one = i == 0 ? take_census().fds : with_one;
    }
    child.line.send('S');
    crowd.exchange();
    // One link serves them all; its two wakers come when its ends sleep for the first time.
    EXPECT(take_census().fds <= with_one + 2);
    EXPECT_EQ(4u, take_census().mappings); // with its claim words, and two windows
    child.line.sync();
    child.line.sync();
    child.finish();
}

} // namespace

TEST_CASE("65,536 VIs live on one NIC handle, twice", "[vis]")
{
    const Nic nic;
    std::vector<VIP_VI_HANDLE> vis(kMany);
    for (int again = 0; again < 2; ++again) {
        const long before = resident_kib();
        const unsigned long long start = now_ms();
        create_many(nic, vis);
        const unsigned long long took = now_ms() - start;
        std::cout << (resident_kib() - before) * 1024 / kMany << " bytes a VI, " << took << " ms"
                  << std::endl;
        REQUIRE(took < 30000ull * timeout_scale());
        REQUIRE(std::set<VIP_VI_HANDLE>(vis.begin(), vis.end()).size() == kMany);
        connect_pair(nic, vis.front(), nic, vis.back());
        REQUIRE_VIP(VipDisconnect(vis.front()));
        REQUIRE_VIP(VipDisconnect(vis.back()));
        for (unsigned i = 0; i < kMany; ++i) {
            EXPECT(VipGetUserData(vis[i]) == &vis[i]);
            REQUIRE_VIP(VipDestroyVi(vis[i]));
        }
        for (unsigned i = 0; i < kMany; i += 997) {
            REQUIRE_RC(VIP_INVALID_PARAMETER, VipDestroyVi(vis[i]));
        }
    }
}

TEST_CASE("closing a NIC handle ends 65,536 VIs", "[vis]")
{
    std::vector<VIP_VI_HANDLE> vis(kMany);
    {
        const Nic nic;
        create_many(nic, vis);
    }
    for (unsigned i = 0; i < kMany; i += 997) {
        REQUIRE(VipGetUserData(vis[i]) == nullptr);
    }
}

TEST_CASE("2,000 connections between two processes share a link and a completion queue", "[vis]")
{
    connect_crowds("auto");
}
