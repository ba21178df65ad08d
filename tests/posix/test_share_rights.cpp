// SPDX-License-Identifier: MIT
//
// POSIX extensions: a process with shared objects becomes another user. What it has it goes on using, as with an open
// descriptor; it gets nothing new through the process that has the objects, which is still the former user's.
#include <vipl/posix.h>

#include <grp.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "family.hpp"
#include "shared_pair.hpp"

using namespace vipl_conformance;

namespace {

constexpr unsigned kNobody = 65534;

void expect_root()
{
    if (geteuid() != 0) {
        throw NotApplicable("only root can become another user");
    }
    expect_fresh();
}

/** The calls that would reach out with the rights of who opened the NIC handle. */
std::vector<VIP_RETURN> reach_out(const SharedPair &shared, void *mapping)
{
    const std::string name = unique_discriminator();
    NetAddress local = shared.nic.address(name + "l"), remote = shared.nic.address(name + "r");
    NetAddress from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE request = nullptr;
    VIP_NIC_HANDLE nic = nullptr;
    VIP_MEM_HANDLE region = 0;
    std::vector<VIP_RETURN> returned;
    returned.push_back(VipxOpenNic(device_under_test(), VIPX_SHAREABLE, &nic));
    if (nic != nullptr) {
        VipCloseNic(nic);
    }
    returned.push_back(VipRegisterMem(shared.nic, mapping, 4096, nullptr, &region));
    if (region != 0) {
        VipDeregisterMem(shared.nic, mapping, region);
    }
    returned.push_back(VipConnectWait(shared.nic, local, 0, from, &attributes, &request));
    returned.push_back(VipConnectRequest(shared.idle, local, remote, kMoment, nullptr));
    returned.push_back(VipConnectPeerRequest(shared.idle, local, remote, kMoment));
    if (returned.back() == VIP_SUCCESS) {
        VipConnectPeerWait(shared.idle, &attributes);
    }
    return returned;
}

void expect_refused(const SharedPair &shared, void *mapping)
{
    for (const VIP_RETURN rc : reach_out(shared, mapping)) {
        REQUIRE_RC(VIP_ERROR_RESOURCE, rc);
    }
}

void expect_served(const SharedPair &shared, void *mapping)
{
    for (const VIP_RETURN rc : reach_out(shared, mapping)) {
        EXPECT(rc != VIP_ERROR_RESOURCE && rc != VIP_INVALID_PARAMETER);
    }
}

/** What it has, it uses. */
void expect_use(SharedPair &shared)
{
    VIP_DESCRIPTOR *done = nullptr;
    VIP_PVOID memory = nullptr;
    VIP_MEM_HANDLE region = 0;
    shared.exchange();
    REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(shared.server, 1, &done));
    REQUIRE_VIP(VipxAllocShared(64, &memory));
    REQUIRE_VIP(VipRegisterMem(shared.nic, memory, 64, nullptr, &region));
    REQUIRE_VIP(VipDeregisterMem(shared.nic, memory, region));
    REQUIRE_VIP(VipxFreeShared(memory));
    EXPECT_EQ(VIP_STATE_CONNECTED, shared.server.state());
}

void become_nobody()
{
    EXPECT(setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0);
}

struct Change {
    const char *name;
    void (*change)();
};
const Change kChanges[] = {
    {"calls setuid", become_nobody},
    {"calls setgid", [] { EXPECT(setgid(kNobody) == 0); }},
    {"calls setgroups",
     [] {
         const gid_t groups[] = {1, kNobody};
         EXPECT(setgroups(2, groups) == 0);
     }},
    {"calls seteuid", [] { EXPECT(seteuid(kNobody) == 0); }},
    {"calls setuid and keeps capabilities",
     [] { EXPECT(prctl(PR_SET_KEEPCAPS, 1) == 0 && setuid(kNobody) == 0); }},
};

void *shared_page()
{
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(page != MAP_FAILED);
    return page;
}

} // namespace

TWO_PROCESS_CASE("a process that becomes another user uses what it shares, and gets nothing new",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_root();
        void *const mapping = shared_page();
        SharedPair shared;
        for (const Change &change : kChanges) {
            Fork child([&] {
                expect_served(shared, mapping);
                change.change();
                expect_refused(shared, mapping);
                expect_use(shared);
                VIP_NIC_HANDLE own = nullptr; // private ones are the process's own
                REQUIRE_VIP(VipOpenNic(device_under_test(), &own));
                REQUIRE_VIP(VipCloseNic(own));
                Fork grandchild([&] { expect_refused(shared, mapping); });
                grandchild.finish();
            });
            child.finish();
        }
        expect_served(shared, mapping); // who has changed nothing goes on
    },
};

TWO_PROCESS_CASE("the process that opened first and becomes another user gets nothing new",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_root();
        void *const mapping = shared_page();
        SharedPair shared;
        shared.exchange();
        become_nobody();
        expect_refused(shared, mapping);
        expect_use(shared);
        Fork child([&] {
            expect_refused(shared, mapping);
            expect_use(shared);
        });
        child.finish();
    },
};

TWO_PROCESS_CASE("a process that becomes another user and then opens shares as that user",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_root();
        void *const mapping = shared_page();
        become_nobody();
        SharedPair shared;
        expect_served(shared, mapping);
        expect_use(shared);
        Fork child([&] { expect_served(shared, mapping); });
        child.finish();
    },
};
