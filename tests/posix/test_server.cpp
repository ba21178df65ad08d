// SPDX-License-Identifier: MIT
//
// POSIX extensions: the server, the process that has the shared objects. Nobody is to notice it,
// nothing of it is to be left, and its death is an error, not a hang. Each case's client is a
// process that has never shared anything.
#include <vipl/posix.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>

#include "family.hpp"
#include "shared_pair.hpp"
#include "support/as_parent.hpp"
#include "support/error_log.hpp"

using namespace vipl_conformance;

namespace {

std::vector<std::string> names_in(const std::string &folder)
{
    std::vector<std::string> names;
    if (DIR *dir = opendir(folder.c_str())) {
        while (const dirent *entry = readdir(dir)) {
            if (entry->d_name[0] != '.') {
                names.emplace_back(entry->d_name);
            }
        }
        closedir(dir);
    }
    return names;
}

/** What a path leads to, also if that is no file. */
std::string target_of(const std::string &path)
{
    char target[4096];
    const ssize_t length = readlink(path.c_str(), target, sizeof target);
    return length < 0 ? path : std::string(target, static_cast<size_t>(length));
}

pid_t server_of_this()
{
    const pid_t found = server();
    EXPECT(found > 0);
    return found;
}

/** What the server has open, and how many threads. */
std::pair<unsigned, unsigned> census(pid_t process)
{
    const std::string folder = "/proc/" + std::to_string(process);
    return {static_cast<unsigned>(names_in(folder + "/fd").size()),
            static_cast<unsigned>(names_in(folder + "/task").size())};
}

/** The first child that a process has, also if no wait() tells of it; 0: none. */
pid_t child_of(pid_t process)
{
    const std::string number = std::to_string(process);
    pid_t child = 0;
    std::ifstream("/proc/" + number + "/task/" + number + "/children") >> child;
    return child;
}

/** The server of a process of that kind, and what stands between the two. The first process of a
 * name space takes them with it. */
void kill_server(Parent kind)
{
    if (kind == Parent::kFirst) {
        return;
    }
    const pid_t between = kind == Parent::kSubreaper ? child_of(getpid()) : 0;
    const pid_t process = between > 0 ? child_of(between) : server_of_this();
    ::kill(process, SIGKILL);
    expect_end_of(process);
    if (between > 0) {
        expect_end_of(between);
    }
}

void expect_error(const char *what, const std::function<VIP_RETURN()> &call)
{
    const unsigned long long start = now_ms();
    const VIP_RETURN rc = call();
    if (rc != VIP_ERROR_RESOURCE || now_ms() - start > a_second()) {
        throw Failure(std::string(what) + " returned " + show(rc) + " after " +
                      std::to_string(now_ms() - start) + " ms");
    }
}

} // namespace

TWO_PROCESS_CASE("nobody notices the server", "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        int fds[2];
        EXPECT(pipe(fds) == 0); // not even close-on-exec
        SharedPair shared;
        const pid_t process = server_of_this();
        errno = 0;
        EXPECT(waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD);
        EXPECT(getsid(process) != getsid(0));
        EXPECT(getpgid(process) != getpgid(0));
        close(fds[1]);
        EXPECT(Gate::readable(fds[0], patience())); // its end: nobody else can write there
        close(fds[0]);
        Fork child([] {}); // who wants this child's end gets it, and no other
        child.finish();
        errno = 0;
        EXPECT(waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD);
        shared.exchange();
    },
};

TWO_PROCESS_CASE("a program does not notice the server that it starts", "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_fresh();
        for (const Parent kind : {Parent::kProgram, Parent::kSubreaper, Parent::kFirst}) {
            for (const bool forked : {false, true}) {
                SharedPair *shared = nullptr;
                const std::string noticed = noticed_as(
                    kind,
                    [&] {
                        if (forked) {
                            setenv("VIPL_SERVER", "/nonexistent/vipl-server", 1);
                        }
                        shared = new SharedPair;
                        shared->exchange();
                        return true;
                    },
                    [&] { kill_server(kind); });
                EXPECT_EQ(std::string(), noticed == "n/a" ? "" : noticed);
            }
        }
    },
};

TWO_PROCESS_CASE("the server is a program of its own and has nothing of the one that began it",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_fresh();
        const char *const named = std::getenv("VIPL_SERVER");
        if (named == nullptr || access(named, X_OK) != 0) {
            throw NotApplicable("VIPL_SERVER does not name a program");
        }
        const std::string file = "/proc/self/exe";
        const int open_file = open(file.c_str(), O_RDONLY); // not even close-on-exec
        EXPECT(open_file >= 0);
        SharedPair shared;
        const std::string process = std::to_string(server_of_this());
        EXPECT_EQ(target_of(named), target_of("/proc/" + process + "/exe"));
        EXPECT_EQ(std::string(), mapping_of(process, target_of(file).c_str()));
        for (const std::string &fd : names_in("/proc/" + process + "/fd")) {
            EXPECT(std::stoi(fd) <= 2 || target_of("/proc/" + process + "/fd/" + fd) != target_of(file));
        }
        close(open_file);
        shared.exchange();
    },
};

TWO_PROCESS_CASE("without its program the server is a fork of the one that began it", "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_fresh();
        Fork child([] { // which has another environment
            EXPECT(setenv("VIPL_SERVER", "/nonexistent/vipl-server", 1) == 0);
            SharedPair shared;
            const std::string process = std::to_string(server_of_this());
            EXPECT(!mapping_of(process, target_of("/proc/self/exe").c_str()).empty());
            shared.exchange();
        });
        child.finish();
    },
};

TWO_PROCESS_CASE("the server outlives the process that began it, and ends with the last holder",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_fresh();
        const Gate told, go, gone;
        Fork first([&] {
            auto *const shared = new SharedPair; // left as it is: nobody closes anything
            told.open(server_of_this());
            Fork::orphan([&] {
                go.pass();
                shared->exchange();
                told.open();
                gone.pass();
            });
        });
        const pid_t process = told.pass();
        first.finish();
        EXPECT(lives(process));
        go.open();
        told.pass(); // the child is alone, and all works
        EXPECT(lives(process));
        gone.open();
        expect_end_of(process);
    },
};

TWO_PROCESS_CASE("the server ends with holders that are killed", "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_fresh();
        const Gate told, never;
        for (int round = 0; round < 5; ++round) {
            Fork holder([&] {
                SharedPair shared;
                shared.exchange();
                told.open(server_of_this());
                never.pass();
            });
            const pid_t process = told.pass();
            EXPECT(lives(process));
            holder.kill();
            expect_end_of(process);
        }
    },
};

TWO_PROCESS_CASE("holders that come and go leave nothing in the server", "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        SharedPair shared;
        const pid_t process = server_of_this();
        const auto round = [&](int number) {
            Fork child([&] {
                const Cq cq(shared.nic);
                const Vi vi(shared.nic, vi_attributes(), nullptr, cq);
                SharedPair other;
                other.exchange();
                VIP_VI_HANDLE told = nullptr;
                VIP_BOOLEAN recv = VIP_FALSE;
                VIP_DESCRIPTOR *done = nullptr;
                REQUIRE_RC(VIP_TIMEOUT, VipCQWait(cq, 1, &told, &recv));
                REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(shared.server, 1, &done));
                if (number % 2 != 0) {
                    ::kill(getpid(), SIGKILL);
                }
                _exit(0); // nothing is destroyed
            });
            expect_end_of(child.pid());
        };
        round(0);
        round(1);
        const auto before = census(process);
        for (int i = 0; i < 30; ++i) {
            round(i);
        }
        const unsigned long long end = now_ms() + patience();
        auto after = census(process);
        while ((after.first > before.first || after.second > before.second) && now_ms() < end) {
            give_way();
            after = census(process);
        }
        EXPECT(after.first <= before.first);   // descriptors
        EXPECT(after.second <= before.second); // threads
        shared.exchange();
    },
};

TWO_PROCESS_CASE("a killed server ends every call with VIP_ERROR_RESOURCE within a second",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        SharedPair shared;
        const Nic own(device_under_test(), false);
        const Cq cq(shared.nic);
        const Vi quiet(shared.nic, vi_attributes(), nullptr, cq), asking(shared.nic);
        const std::string name = unique_discriminator();
        NetAddress listen = shared.nic.address(name), from; // now: it is the server who knows
        NetAddress local = shared.nic.address(name + "c"), remote = shared.nic.address(name + "x");
        const Work spare = shared.memory.transfer(shared.memory.bytes(8));
        VIP_DESCRIPTOR *done = nullptr;
        VIP_VI_HANDLE vi = nullptr;
        VIP_BOOLEAN recv = VIP_FALSE;
        const pid_t process = server_of_this();
        const std::vector<std::function<VIP_RETURN()>> blocking = {
            [&] {
                VIP_DESCRIPTOR *none = nullptr;
                return VipRecvWait(shared.server, VIP_INFINITE, &none);
            },
            [&] {
                VIP_VI_HANDLE no_vi = nullptr;
                VIP_BOOLEAN no_queue = VIP_FALSE;
                return VipCQWait(cq, VIP_INFINITE, &no_vi, &no_queue);
            },
            [&] {
                VIP_VI_ATTRIBUTES attributes{};
                VIP_CONN_HANDLE request = nullptr;
                return VipConnectWait(shared.nic, listen, VIP_INFINITE, from, &attributes, &request);
            },
            [&] { return VipConnectRequest(asking, local, remote, VIP_INFINITE, nullptr); },
        };
        std::vector<VIP_RETURN> returned(blocking.size(), VIP_SUCCESS);
        std::vector<std::future<void>> callers(blocking.size());
        for (size_t i = 0; i < blocking.size(); ++i) {
            begin_call(callers[i], [&, i] { returned[i] = blocking[i](); });
        }
        const Gate ready, ended;
        Fork child([&] {
            VIP_DESCRIPTOR *none = nullptr;
            ready.open();
            const VIP_RETURN rc = VipRecvWait(shared.client, VIP_INFINITE, &none);
            ended.open();
            REQUIRE_RC(VIP_ERROR_RESOURCE, rc);
        });
        ready.pass();
        await_rest(std::to_string(child.pid()));
        const unsigned long long start = now_ms();
        ::kill(process, SIGKILL);
        for (std::future<void> &caller : callers) {
            caller.get();
        }
        ended.pass();
        EXPECT(now_ms() - start <= a_second());
        child.finish();
        for (const VIP_RETURN rc : returned) {
            REQUIRE_RC(VIP_ERROR_RESOURCE, rc);
        }
        VIP_NIC_ATTRIBUTES limits{};
        VIP_VI_STATE state;
        VIP_VI_ATTRIBUTES attributes = vi_attributes();
        expect_error("VipQueryNic", [&] { return VipQueryNic(shared.nic, &limits); });
        expect_error("VipQueryVi", [&] { return VipQueryVi(quiet, &state, nullptr, nullptr, nullptr); });
        expect_error("VipPostRecv", [&] { return VipPostRecv(quiet, spare.desc, spare.handle); });
        expect_error("VipPostSend", [&] { return VipPostSend(shared.client, spare.desc, spare.handle); });
        expect_error("VipCreateVi",
                     [&] { return VipCreateVi(shared.nic, &attributes, nullptr, nullptr, &vi); });
        expect_error("VipDisconnect", [&] { return VipDisconnect(shared.server); });
        const auto poll_until_error = [&](const std::function<VIP_RETURN()> &call) {
            VIP_RETURN rc;
            do {
                rc = call();
            } while (rc == VIP_NOT_DONE && now_ms() - start <= 5000ull * timeout_scale());
            return rc;
        };
        expect_error("VipRecvDone",
                     [&] { return poll_until_error([&] { return VipRecvDone(shared.server, &done); }); });
        expect_error("VipCQDone",
                     [&] { return poll_until_error([&] { return VipCQDone(cq, &vi, &recv); }); });
        const Vi private_vi(own); // what is private is none of the server's
        EXPECT_EQ(VIP_STATE_IDLE, private_vi.state());
        Fork late([] {}); // and forking goes on
        late.finish();
        VIP_NIC_HANDLE nic = nullptr; // another server: what the first one had is none of its
        REQUIRE_VIP(VipxOpenNic(device_under_test(), VIPX_SHAREABLE, &nic));
        REQUIRE_RC(VIP_INVALID_PARAMETER, VipQueryVi(quiet, &state, nullptr, nullptr, nullptr));
        REQUIRE_VIP(VipQueryNic(nic, &limits));
        REQUIRE_VIP(VipCloseNic(nic));
    },
};

TWO_PROCESS_CASE("peers of a killed server's VIs notice within a second", "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        const Nic nic(device_under_test(), true), own(device_under_test(), false);
        Memory memory(own);
        const ErrorLog log(own);
        const Vi server(nic), client(own);
        connect_pair(nic, server, own, client);
        const Work left = memory.transfer(memory.bytes(8));
        post_recv(client, left);
        const unsigned long long start = now_ms();
        ::kill(server_of_this(), SIGKILL);
        EXPECT(receive_failed(client) == left.desc);
        EXPECT(now_ms() - start <= a_second());
        const_cast<ErrorLog &>(log).expect(client, VIP_ERROR_CONN_LOST);
    },
};

TWO_PROCESS_CASE("the server begins where SIGCHLD is ignored and standard descriptors are closed",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_fresh();
        signal(SIGCHLD, SIG_IGN);
        const int in = dup(0);
        const int out = dup(1);
        close(0);
        close(1);
        const auto use = [] {
            SharedPair shared;
            shared.exchange();
            signal(SIGCHLD, SIG_DFL);
            Fork child([&] { shared.exchange(); });
            child.finish();
            return server_of_this();
        };
        const pid_t process = use();
        dup2(in, 0);
        dup2(out, 1);
        close(in);
        close(out);
        EXPECT_EQ(process, use()); // none of the library's descriptors was among those
    },
};

TWO_PROCESS_CASE("a process that closes every descriptor is a holder no more, and nothing hangs",
                 "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        expect_fresh();
        const Gate told;
        Fork::orphan([&] {
            auto *const shared = new SharedPair;
            told.open(server_of_this());
            told.open(getpid());
            for (int fd = 3; fd < 1024; ++fd) { // as programs do that become daemons
                close(fd);
            }
            VIP_VI_STATE state;
            while (VipQueryVi(shared->server, &state, nullptr, nullptr, nullptr) == VIP_SUCCESS) {
                for (int i = 0; i < 20; ++i) { // the server's thread falls asleep in between
                    std::this_thread::yield();
                }
            }
            VipQueryVi(shared->server, &state, nullptr, nullptr, nullptr);
        });
        const pid_t process = told.pass();
        const pid_t holder = told.pass();
        expect_end_of(holder);
        expect_end_of(process);
    },
};

TWO_PROCESS_CASE_WITH("VIPL_SHARED_MIB=1", "VIPL_SHARED_MIB says how much memory may be shared",
                      "[sharing][posix]") = {
    nobody,
    [](Peer &) {
        constexpr VIP_ULONG kMib = 1 << 20;
        VIP_PVOID memory = nullptr, more = nullptr;
        expect_fresh();
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipxAllocShared(kMib + 1, &memory));
        REQUIRE_VIP(VipxAllocShared(kMib, &memory));
        REQUIRE_RC(VIP_ERROR_RESOURCE, VipxAllocShared(1, &more));
        std::memset(memory, 1, kMib);
        REQUIRE_VIP(VipxFreeShared(memory));
        REQUIRE_VIP(VipxAllocShared(kMib / 2, &memory));
        REQUIRE_VIP(VipxAllocShared(kMib / 2, &more));
        REQUIRE_VIP(VipxFreeShared(memory));
        REQUIRE_VIP(VipxFreeShared(more));
    },
};
