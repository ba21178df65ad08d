// SPDX-License-Identifier: MIT
//
// POSIX extensions: a process with shared objects becomes another user. What it has it goes on
// using, as with an open descriptor; it gets nothing new through the server while that is still the
// former user's for others. When all have become other users, so does the server.
#include <vipl/posix.h>

#include <atomic>
#include <fstream>
#include <sstream>

#include <grp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/** This thread alone: the C library's calls would take all others along. */
void become_nobody_alone()
{
    EXPECT(syscall(SYS_setgroups, 0, nullptr) == 0 &&
           syscall(SYS_setresgid, kNobody, kNobody, kNobody) == 0 &&
           syscall(SYS_setresuid, kNobody, kNobody, kNobody) == 0);
}

void await_more(const std::atomic<unsigned> &calls, unsigned more)
{
    const unsigned all = calls + more;
    const unsigned long long end = now_ms() + patience();
    while (calls < all) {
        EXPECT(now_ms() < end);
        give_way();
    }
}

/** Whether all of a process's threads are that user, group, and nothing else. */
bool is_nobody(pid_t process)
{
    const std::string folder = "/proc/" + std::to_string(process) + "/task";
    const std::string id = std::to_string(kNobody), four = id + "\t" + id + "\t" + id + "\t" + id;
    DIR *const tasks = opendir(folder.c_str());
    EXPECT(tasks != nullptr);
    bool all = true;
    while (const dirent *entry = readdir(tasks)) {
        if (entry->d_name[0] != '.') {
            std::ostringstream text; // stays empty if the thread ends meanwhile
            text << std::ifstream(folder + "/" + entry->d_name + "/status").rdbuf();
            const std::string status = text.str();
            for (const std::string &line :
                 {"Uid:\t" + four, "Gid:\t" + four, std::string("Groups:\t \n"),
                  std::string("CapPrm:\t0000000000000000"), std::string("CapEff:\t0000000000000000")}) {
                all = all && (status.empty() || status.find(line) != std::string::npos);
            }
        }
    }
    closedir(tasks);
    return all;
}

void expect_nobody(pid_t process)
{
    EXPECT(is_nobody(process));
}

/** How long: enough for the server to change its rights meanwhile, many times. */
VIP_ULONG a_while()
{
    return 1000ul * slowness();
}

/** Waits for a request that never comes. The C library signals all threads of a process that calls
 * setuid(). */
VIP_RETURN wait_undisturbed(const SharedPair &shared, VIP_ULONG timeout)
{
    NetAddress from, local = shared.nic.address(unique_discriminator());
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE request = nullptr;
    REQUIRE_VIP(VipxSetRestart(shared.nic, VIP_TRUE));
    return VipConnectWait(shared.nic, local, timeout, from, &attributes, &request);
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
                if (!device_is_rnic()) {          // whose adapter is the former user's
                    VIP_NIC_HANDLE own = nullptr; // private ones are the process's own
                    REQUIRE_VIP(VipOpenNic(device_under_test(), &own));
                    REQUIRE_VIP(VipCloseNic(own));
                }
                Fork grandchild([&] { expect_refused(shared, mapping); });
                grandchild.finish();
            });
            child.finish();
        }
        expect_served(shared, mapping); // who has changed nothing goes on
    },
};

TWO_PROCESS_CASE("a program that becomes another user takes the server along", "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_root();
        void *const mapping = shared_page();
        SharedPair shared;
        const pid_t process = server();
        shared.exchange();
        become_nobody();
        expect_served(shared, mapping);
        expect_nobody(process);
        expect_use(shared);
        Fork child([&] {
            expect_served(shared, mapping);
            expect_use(shared);
        });
        child.finish();
    },
};

TWO_PROCESS_CASE("the server drops its rights with the last of its processes, whatever that calls",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_root();
        SharedPair shared;
        const pid_t process = server();
        std::future<void> waiting;
        begin_call(waiting, [&] { REQUIRE_RC(VIP_TIMEOUT, wait_undisturbed(shared, a_while())); });
        become_nobody();
        const unsigned long long end = now_ms() + patience();
        while (!is_nobody(process) && now_ms() < end) {
            shared.idle.state();
        }
        expect_nobody(process);
        waiting.get();
        shared.exchange();
    },
};

TWO_PROCESS_CASE("a call is served while its process becomes another user, one thread after the other",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_root();
        SharedPair shared;
        std::promise<std::string> changed;
        std::future<void> waiting = std::async(std::launch::async, [&] {
            become_nobody_alone();
            changed.set_value(this_task());
            REQUIRE_RC(VIP_TIMEOUT, wait_undisturbed(shared, 0));
        });
        await_state(changed.get_future().get(), 'S'); // it asks again and again
        become_nobody_alone();
        waiting.get();
    },
};

TWO_PROCESS_CASE("calls are served at each step by which their process becomes another user",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_root();
        for (int round = 0; round < 10; ++round) {
            Fork child([&] {
                SharedPair shared;
                std::atomic<unsigned> calls{0};
                std::atomic<bool> over{false};
                std::future<void> caller = std::async(std::launch::async, [&] {
                    for (; !over; ++calls) {
                        REQUIRE_RC(VIP_TIMEOUT, wait_undisturbed(shared, 0));
                    }
                });
                await_more(calls, 1);
                EXPECT(setgroups(0, nullptr) == 0);
                await_more(calls, 1);
                EXPECT(setgid(kNobody) == 0 && setuid(kNobody) == 0);
                await_more(calls, 2);
                over = true;
                caller.get();
            });
            child.finish();
        }
    },
};

TWO_PROCESS_CASE("a thread that is another user than its process is refused, after a while",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_root();
        SharedPair shared;
        std::async(std::launch::async, [&] {
            become_nobody_alone();
            REQUIRE_RC(VIP_ERROR_RESOURCE, wait_undisturbed(shared, 0));
        }).get();
        REQUIRE_RC(VIP_TIMEOUT, wait_undisturbed(shared, 0));
    },
};

TWO_PROCESS_CASE("a wait ends in time, however often the server changes its rights meanwhile",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_root();
        SharedPair shared;
        std::atomic<bool> over{false};
        std::future<void> waiting;
        begin_call(waiting, [&] {
            const VIP_RETURN rc = wait_undisturbed(shared, a_while());
            over = true;
            REQUIRE_RC(VIP_TIMEOUT, rc);
        });
        const unsigned long long end = now_ms() + patience();
        for (unsigned user = kNobody; !over && now_ms() < end; user = kNobody - user) {
            EXPECT(seteuid(user) == 0);
            const Nic another(device_under_test(), true);
        }
        EXPECT(over);
        EXPECT(seteuid(0) == 0);
        waiting.get();
    },
};

TWO_PROCESS_CASE("rights that are set aside for a while are set aside by the server too, and come back",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_root();
        void *const mapping = shared_page();
        SharedPair shared;
        for (unsigned round = 0; round < 2; ++round) {
            EXPECT(setegid(kNobody) == 0 && seteuid(kNobody) == 0);
            expect_served(shared, mapping);
            EXPECT(seteuid(0) == 0 && setegid(0) == 0);
            expect_served(shared, mapping);
        }
        Fork child([&] { // and then they are set aside for one of two only
            EXPECT(seteuid(kNobody) == 0);
            expect_refused(shared, mapping);
        });
        child.finish();
        EXPECT(seteuid(kNobody) == 0);
        expect_served(shared, mapping);
        const gid_t groups[] = {1, kNobody}; // which only a server that takes its rights back can follow
        EXPECT(seteuid(0) == 0 && setgroups(2, groups) == 0);
        expect_served(shared, mapping);
    },
};

TWO_PROCESS_CASE("a server that is root only as its real user, or only as the effective one, follows",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_root();
        void *const mapping = shared_page();
        SharedPair shared;
        const pid_t process = server();
        EXPECT(setresuid(0, kNobody, kNobody) == 0);
        expect_served(shared, mapping);
        EXPECT(seteuid(0) == 0 && setegid(1) == 0);
        expect_served(shared, mapping);
        EXPECT(setresuid(kNobody, 0, kNobody) == 0);
        expect_served(shared, mapping);
        become_nobody();
        expect_served(shared, mapping);
        expect_nobody(process);
    },
};

TWO_PROCESS_CASE("a child that has made no call keeps the server's rights, or drops them, as others do",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_root();
        void *const mapping = shared_page();
        const Gate keep, drop, dropped, end;
        SharedPair shared;
        Fork keeper([&] {
            keep.pass();
            expect_served(shared, mapping);
        });
        Fork dropper([&] {
            drop.pass();
            become_nobody();
            dropped.open();
            end.pass();
        });
        become_nobody();
        expect_refused(shared, mapping); // the keeper may call yet
        keep.open();
        keeper.finish();
        drop.open();
        dropped.pass();
        expect_served(shared, mapping);
        end.open();
        dropper.finish();
    },
};

TWO_PROCESS_CASE("the server drops its rights when the last process that has them ends",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_root();
        const Gate ready, left, told;
        Fork parent([&] {
            SharedPair shared;
            const pid_t process = server();
            Fork::orphan([&, process] {
                become_nobody();
                expect_refused(shared, shared_page());
                ready.open();
                left.pass(); // the last that has them has ended
                const unsigned long long end = now_ms() + patience();
                while (!is_nobody(process) && now_ms() < end) { // makes no call
                    give_way();
                }
                told.open(is_nobody(process));
            });
            ready.pass();
        });
        parent.finish();
        left.open();
        EXPECT_EQ(1, told.pass());
    },
};

TWO_PROCESS_CASE("a process that becomes another user and then opens shares as that user",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_root();
        if (device_is_rnic()) {
            throw NotApplicable("an adapter of the card serves the programs of one user");
        }
        void *const mapping = shared_page();
        become_nobody();
        SharedPair shared;
        expect_served(shared, mapping);
        expect_use(shared);
        Fork child([&] { expect_served(shared, mapping); });
        child.finish();
    },
};
