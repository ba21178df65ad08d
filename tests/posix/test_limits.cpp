// SPDX-License-Identifier: MIT
//
// POSIX, limits that a process sets for itself: out of descriptors, and with a limit on the size of
// files. Calls fail with VIP_ERROR_RESOURCE or go on waiting; the program lives, and what it does
// when the limit is gone works.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vipl/posix.h>

#include "family.hpp"
#include "support/forked.hpp"
#include "support/role_case.hpp"

using namespace vipl_conformance;
using namespace vipl_test;

namespace {

/** A limit that lasts as long as the object. */
class Limit {
public:
    Limit(decltype(RLIMIT_NOFILE) what, rlim_t value) : what_(what)
    {
        EXPECT_EQ(0, getrlimit(what_, &before_));
        const rlimit now = {value, before_.rlim_max};
        EXPECT_EQ(0, setrlimit(what_, &now));
    }
    ~Limit() { setrlimit(what_, &before_); }
    Limit(const Limit &) = delete;
    Limit &operator=(const Limit &) = delete;

private:
    decltype(RLIMIT_NOFILE) what_;
    rlimit before_{};
};

/** Processor time of this process, in milliseconds. */
long used_ms()
{
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

VIP_RETURN wait_for_request(const Nic &nic, const std::string &name, VIP_ULONG timeout,
                            VIP_CONN_HANDLE *request)
{
    VIP_VI_ATTRIBUTES attributes{};
    NetAddress local = nic.address(name), remote;
    return VipConnectWait(nic, local, timeout, remote, &attributes, request);
}

/** A card has no descriptor for a request or a connection: there is nothing to be short of. */
bool needs_descriptors()
{
    return !device_is_rnic();
}

/** Waits without descriptors for as long, while somebody asks; then with them. */
void serve_short_of_descriptors(const ParentLine &line, const std::string &name, rlim_t descriptors)
{
    constexpr VIP_ULONG kWait = 1000;
    const Nic nic;
    const Vi vi(nic);
    VIP_CONN_HANDLE request = nullptr;
    REQUIRE_RC(VIP_TIMEOUT, wait_for_request(nic, name, 1, &request));
    {
        const Limit limit(RLIMIT_NOFILE, descriptors);
        line.tell(); // now the other one asks
        const long before = used_ms();
        const VIP_RETURN rc = wait_for_request(nic, name, kWait, &request);
        REQUIRE_RC(needs_descriptors() ? VIP_TIMEOUT : VIP_SUCCESS, rc);
        EXPECT(used_ms() - before < static_cast<long>(kWait / 10));
    }
    if (needs_descriptors()) {
        REQUIRE_VIP(wait_for_request(nic, name, patience(), &request));
    }
    REQUIRE_VIP(VipConnectAccept(request, vi));
    line.await();
}

void ask_patiently(const ParentLine &line, const std::string &name)
{
    const Nic nic;
    const Vi vi(nic);
    VIP_VI_ATTRIBUTES attributes{};
    NetAddress local = nic.address("c"), remote = nic.address(name);
    const unsigned long long end = now_ms() + patience();
    VIP_RETURN rc;
    do { // it may say that nobody is there
        rc = VipConnectRequest(vi, local, remote, patience(), &attributes);
    } while (rc != VIP_SUCCESS && now_ms() < end);
    REQUIRE_VIP(rc);
    line.tell();
}

void wait_short_of_descriptors(rlim_t descriptors)
{
    const std::string name = unique_discriminator();
    Forked server([&](const ParentLine &line) { serve_short_of_descriptors(line, name, descriptors); });
    server.await();
    Forked client([&](const ParentLine &line) { ask_patiently(line, name); });
    client.await();
    server.tell();
    server.finish();
    client.finish();
}

/** So many programs, each of which opens the device when all are there, and has it until all have
 * tried. */
void open_at_once(unsigned count)
{
    struct Board {
        std::atomic<unsigned> there, tried, open;
    };
    auto *const board = static_cast<Board *>(
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    EXPECT(board != MAP_FAILED);
    std::vector<std::unique_ptr<Forked>> programs;
    const auto all = [&](const std::atomic<unsigned> &counter) {
        const unsigned long long end = now_ms() + patience();
        while (counter < count) {
            EXPECT(now_ms() < end);
            give_way();
        }
    };
    while (programs.size() < count) {
        programs.push_back(std::make_unique<Forked>([&](const ParentLine &line) {
            ++board->there;
            line.await();
            VIP_NIC_HANDLE nic = nullptr;
            const VIP_RETURN rc = VipOpenNic(device_under_test(), &nic);
            board->open += rc == VIP_SUCCESS;
            ++board->tried;
            line.await();
        }));
    }
    all(board->there);
    for (const auto &program : programs) {
        program->tell();
    }
    all(board->tried);
    const unsigned open = board->open;
    for (const auto &program : programs) {
        program->tell();
        program->finish();
    }
    munmap(board, sizeof(Board));
    EXPECT_EQ(count, open);
}

bool is_signal_waiting(int number)
{
    sigset_t waiting;
    sigpending(&waiting);
    return sigismember(&waiting, number) == 1;
}

void set_blocked(int number, bool blocked)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &set, nullptr);
}

/** Success, or VIP_ERROR_RESOURCE. */
bool succeeds(VIP_RETURN rc)
{
    EXPECT(rc == VIP_SUCCESS || rc == VIP_ERROR_RESOURCE);
    return rc == VIP_SUCCESS;
}

/** Everything that may need memory to share, under a limit of one page; then without. */
void use_with_small_files(bool shareable)
{
    alignas(64) static char memory[4096];
    NetAddress local = Nic(device_under_test(), false).address(unique_discriminator());
    {
        const Limit limit(RLIMIT_FSIZE, 4096);
        VIP_NIC_HANDLE nic = nullptr;
        const VIP_RETURN opened = VipxOpenNic(device_under_test(), shareable ? VIPX_SHAREABLE : 0, &nic);
        if (succeeds(opened)) {
            VIP_MEM_HANDLE handle = 0;
            VIP_MEM_ATTRIBUTES attributes = rdma_memory();
            VIP_VI_HANDLE vi = nullptr;
            VIP_VI_ATTRIBUTES wanted = vi_attributes();
            void *shared = nullptr;
            if (!shareable) {
                succeeds(VipRegisterMem(nic, memory, sizeof memory, &attributes, &handle));
            } else if (succeeds(VipxAllocShared(sizeof memory, &shared))) {
                VipxFreeShared(shared);
            }
            succeeds(VipCreateVi(nic, &wanted, nullptr, nullptr, &vi));
            VIP_CONN_HANDLE request = nullptr;
            VIP_VI_ATTRIBUTES theirs{};
            NetAddress remote;
            const VIP_RETURN waited = VipConnectWait(nic, local, 1, remote, &theirs, &request);
            EXPECT(waited == VIP_TIMEOUT || waited == VIP_ERROR_RESOURCE);
            REQUIRE_VIP(VipCloseNic(nic));
        }
    }
    exchange_within_this_process();
}

void fork_and_end()
{
    const pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    EXPECT_EQ(0, status);
}

} // namespace

TEST_CASE("VipConnectWait out of descriptors waits quietly, and takes the request when there are some again",
          "[VipConnectWait][fork][posix][limits]")
{
    wait_short_of_descriptors(3);
}

TEST_CASE("VipConnectWait waits quietly where a process allows itself no descriptors at all",
          "[VipConnectWait][fork][posix][limits]")
{
    wait_short_of_descriptors(0);
}

TEST_CASE("a request at once that cannot be made for want of descriptors is not VIP_NO_MATCH",
          "[VipxConnectRequest][posix][private][fork]")
{
    const std::string name = unique_discriminator();
    const Gate listens, end;
    Fork child([&] {
        const Nic nic;
        VIP_CONN_HANDLE connection = nullptr;
        VIP_VI_ATTRIBUTES attributes{};
        NetAddress from;
        REQUIRE_RC(VIP_TIMEOUT, VipConnectWait(nic, nic.address(name), 0, from, &attributes, &connection));
        listens.open();
        end.pass();
    });
    const Nic nic;
    const Vi vi(nic);
    const auto ask = [&](const std::string &remote, VIP_ULONG timeout) {
        return VipxConnectRequest(vi, nic.address("x"), nic.address(remote), VIPX_AT_ONCE, timeout, nullptr);
    };
    listens.pass();
    VIP_RETURN rc = ask(name + "a", answer_time());  // opens what the device keeps
    EXPECT(rc == VIP_NO_MATCH || rc == VIP_TIMEOUT); // TIMEOUT: a port may be an idle program's
    {
        const Limit none(RLIMIT_NOFILE, 0);
        rc = ask(name, answer_time());
    }
    EXPECT(rc == VIP_ERROR_RESOURCE || rc == VIP_TIMEOUT); // TIMEOUT: the device needs no descriptor
    end.open();
    child.finish();
}

TEST_CASE("a limit on the size of files ends no program, and leaves no signal behind",
          "[VipOpenNic][fork][posix][limits]")
{
    Forked child([](const ParentLine &) {
        use_with_small_files(false);
        EXPECT(!is_signal_waiting(SIGXFSZ));
    });
    child.finish();
}

TEST_CASE("a limit on the size of files leaves a signal of the program's where it waits",
          "[VipOpenNic][fork][posix][limits]")
{
    Forked child([](const ParentLine &) {
        set_blocked(SIGXFSZ, true);
        raise(SIGXFSZ);
        use_with_small_files(false);
        EXPECT(is_signal_waiting(SIGXFSZ));
    });
    child.finish();
}

TEST_CASE("a limit on the size of files ends no program that shares objects",
          "[VipxOpenNic][sharing][posix][limits]")
{
    Forked child([](const ParentLine &) {
        use_with_small_files(true);
        EXPECT(!is_signal_waiting(SIGXFSZ));
    });
    child.finish();
}

TEST_CASE("as many programs as a card has functions for may open the device at once",
          "[VipOpenNic][fork][posix][private][limits]")
{
    open_at_once(250);
}

TEST_CASE("VipOpenNic with only a few descriptors left fails or succeeds, and forks go on",
          "[VipOpenNic][fork][posix][limits]")
{
    for (rlim_t left = 0; left < 16; ++left) {
        Forked child([&](const ParentLine &) {
            const rlim_t open = count_entries_of("/proc/self/fd"); // one of them reads the folder
            {
                const Limit limit(RLIMIT_NOFILE, open - 1 + left);
                VIP_NIC_HANDLE nic = nullptr;
                if (succeeds(VipOpenNic(device_under_test(), &nic))) {
                    fork_and_end();
                    REQUIRE_VIP(VipCloseNic(nic));
                }
            }
            exchange_within_this_process();
        });
        child.finish();
    }
}

TEST_CASE("a process that allows itself no descriptors forks, and its child lives",
          "[VipOpenNic][fork][posix][limits]")
{
    Forked child([&](const ParentLine &) {
        const Nic nic;
        const Limit limit(RLIMIT_NOFILE, 0);
        fork_and_end();
    });
    child.finish();
}
