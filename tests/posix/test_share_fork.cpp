// SPDX-License-Identifier: MIT
//
// POSIX extensions: forks of a process that shares objects. Every child has them: of several forks
// at once, of one in a signal handler, and while the process that has the objects is slow or
// stopped. A fork waits for nobody.
#include <vipl/posix.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include <pthread.h>

#include "family.hpp"
#include "stopped.hpp"
#include "support/error_log.hpp"

using namespace vipl_conformance;

namespace {

/** A shareable VI, connected with a private one: its peer sees when the last process that holds it
 * is gone. */
struct Pair {
    Pair() { connect_pair(nic, server, own, client); }

    /** Nobody but this process holds the VI: if it drops it, the peer notices. */
    void expect_no_other_holds()
    {
        const ErrorLog log(own);
        const Work left = memory.transfer(memory.bytes(8));
        post_recv(client, left);
        const unsigned long long start = now_ms();
        REQUIRE_VIP(VipCloseNic(nic));
        EXPECT(receive_failed(client) == left.desc);
        EXPECT(now_ms() - start <= a_second());
        const_cast<ErrorLog &>(log).expect(client, VIP_ERROR_CONN_LOST);
    }

    Nic nic{device_under_test(), true};
    Nic own{device_under_test(), false};
    Memory memory{own};
    Vi server{nic}, client{own};
};

/** The wait status of a child that uses the VI, ends, and says by its exit code whether it
 * could. */
pid_t fork_user(VIP_VI_HANDLE vi)
{
    const pid_t child = fork();
    if (child == 0) {
        alarm(case_limit());
        VIP_VI_STATE state = VIP_STATE_ERROR;
        const VIP_RETURN rc = VipQueryVi(vi, &state, nullptr, nullptr, nullptr);
        _exit(rc == VIP_SUCCESS ? static_cast<int>(state) : 64 + static_cast<int>(rc));
    }
    return child;
}

int exit_code_of(pid_t child)
{
    int status = 0;
    EXPECT(child > 0);
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/** Fork from several threads at once; what each child found. */
std::vector<int> fork_at_once(VIP_VI_HANDLE vi, unsigned threads, unsigned forks,
                              const std::function<void(const std::vector<pid_t> &)> &then)
{
    std::vector<std::vector<pid_t>> children(threads);
    std::atomic<unsigned> ready{0};
    std::vector<std::thread> forking;
    for (unsigned i = 0; i < threads; ++i) {
        forking.emplace_back([&, i] {
            ready++;
            while (ready < threads) {
            }
            for (unsigned n = 0; n < forks; ++n) {
                children[i].push_back(fork_user(vi));
            }
        });
    }
    for (std::thread &thread : forking) {
        thread.join();
    }
    std::vector<pid_t> all;
    for (const auto &of_thread : children) {
        all.insert(all.end(), of_thread.begin(), of_thread.end());
    }
    then(all);
    std::vector<int> found;
    std::transform(all.begin(), all.end(), std::back_inserter(found), exit_code_of);
    return found;
}

void expect_all_connected(const std::vector<int> &found)
{
    for (const int code : found) {
        EXPECT_EQ(static_cast<int>(VIP_STATE_CONNECTED), code);
    }
}

// --- what a handler of the program's does in the middle of a fork ---

VIP_VI_HANDLE asked = nullptr;
std::atomic<int> asks{0};
thread_local bool fork_is_interrupted = false;

void ask(int)
{
    VIP_VI_STATE state = VIP_STATE_ERROR;
    VIP_DESCRIPTOR *done = nullptr;
    asks += VipQueryVi(asked, &state, nullptr, nullptr, nullptr) == VIP_SUCCESS ? 1 : 0;
    asks += VipRecvDone(asked, &done) == VIP_NOT_DONE ? 1 : 0;
}

/** Registered before the library's own, and so called after them. */
void interrupt_fork()
{
    if (fork_is_interrupted) {
        raise(SIGUSR1);
    }
}

void interrupt_forks()
{
    struct sigaction action = {};
    action.sa_handler = ask;
    sigaction(SIGUSR1, &action, nullptr);
    EXPECT(pthread_atfork(interrupt_fork, interrupt_fork, nullptr) == 0);
}

} // namespace

TWO_PROCESS_CASE("a signal handler may post, reap and query while its thread forks with shared objects",
                 "[sharing][fork][posix]") = {
    nobody,
    [](Peer &) {
        expect_fresh();
        interrupt_forks();
        Pair pair;
        asked = pair.server;
        Fork child([&] { // which has made no call yet: the handler's is the first
            fork_is_interrupted = true;
            const pid_t grandchild = fork_user(pair.server);
            fork_is_interrupted = false;
            EXPECT_EQ(4, asks.load()); // before the fork and after it
            EXPECT_EQ(static_cast<int>(VIP_STATE_CONNECTED), exit_code_of(grandchild));
        });
        child.finish();
        pair.expect_no_other_holds();
    },
};

TWO_PROCESS_CASE("threads that fork at once: each child has what is shared, and nothing is left of it",
                 "[sharing][fork][posix]") = {
    nobody,
    [](Peer &) {
        Pair pair;
        expect_all_connected(fork_at_once(pair.server, 4, 25, [](const auto &) {}));
        pair.expect_no_other_holds();
    },
};

TWO_PROCESS_CASE("forks do not wait for a stopped server, and their children have what is shared",
                 "[sharing][fork][posix]") = {
    nobody,
    [](Peer &) {
        Pair pair;
        Stopped stopped(server());
        const unsigned long long start = now_ms();
        expect_all_connected(fork_at_once(pair.server, 3, 10, [&](const std::vector<pid_t> &children) {
            EXPECT(now_ms() - start <= a_second());
            for (const pid_t child : children) { // each waits in its call, and does not give up
                await_state(std::to_string(child), 'S');
            }
            stopped.go_on();
        }));
        pair.expect_no_other_holds();
    },
};

TWO_PROCESS_CASE("children that end before the server hears of them leave nothing",
                 "[sharing][fork][posix]") = {
    nobody,
    [](Peer &) {
        Pair pair;
        Stopped stopped(server());
        for (int i = 0; i < 40; ++i) {
            const pid_t child = fork();
            if (child == 0) {
                _exit(VIP_STATE_CONNECTED);
            }
            exit_code_of(child);
        }
        stopped.go_on();
        pair.expect_no_other_holds();
    },
};

TWO_PROCESS_CASE("children of a child that the server has not heard of have what is shared",
                 "[sharing][fork][posix]") = {
    nobody,
    [](Peer &) {
        Pair pair;
        const Gate forked;
        Stopped stopped(server());
        Fork child([&] {
            const pid_t grandchild = fork_user(pair.server);
            forked.open();
            EXPECT_EQ(static_cast<int>(VIP_STATE_CONNECTED), exit_code_of(grandchild));
        });
        forked.pass();
        stopped.go_on();
        child.finish();
        pair.expect_no_other_holds();
    },
};

TWO_PROCESS_CASE("what a parent destroys right after a fork is its child's", "[sharing][fork][posix]") = {
    nobody,
    [](Peer &) {
        Pair pair;
        for (int round = 0; round < 20; ++round) {
            const Vi vi(pair.nic);
            const Gate dropped;
            const auto in_child = [&] {
                dropped.pass();
                EXPECT_EQ(VIP_STATE_IDLE, vi.state());
            };
            Stopped stopped(server());
            Fork child(in_child);
            const VIP_RETURN rc = stopped.go_on_during([&] { return VipDestroyVi(vi); });
            dropped.open();
            REQUIRE_VIP(rc);
            child.finish();
        }
    },
};

TWO_PROCESS_CASE("what a parent makes right after a fork is not its child's to keep",
                 "[sharing][fork][posix]") = {
    nobody,
    [](Peer &) {
        Pair pair;
        const Gate end;
        for (int round = 0; round < 5; ++round) {
            Stopped stopped(server());
            Fork child([&] { end.pass(); });
            VIP_VI_HANDLE vi = nullptr;
            VIP_VI_ATTRIBUTES attributes = vi_attributes();
            const VIP_RETURN rc = stopped.go_on_during(
                [&] { return VipCreateVi(pair.nic, &attributes, nullptr, nullptr, &vi); });
            REQUIRE_VIP(rc);
            const Vi peer(pair.own);
            connect_pair(pair.nic, vi, pair.own, peer);
            REQUIRE_RC(VIP_INVALID_STATE, VipDestroyVi(vi)); // it is the last to hold it
            REQUIRE_VIP(VipDisconnect(vi));
            REQUIRE_VIP(VipDestroyVi(vi));
            end.open();
            child.finish();
        }
    },
};

TWO_PROCESS_CASE("with a stopped server and hundreds of forks, each fork still ends in time",
                 "[sharing][fork][posix]") = {
    nobody,
    [](Peer &) {
        Pair pair;
        Stopped stopped(server());
        unsigned long long longest = 0;
        for (int i = 0; i < 1500 && longest < 500; ++i) { // until there is no room to announce another
            const unsigned long long start = now_ms();
            const pid_t child = fork();
            if (child == 0) {
                _exit(0);
            }
            longest = std::max(longest, now_ms() - start);
            exit_code_of(child);
        }
        EXPECT(longest <= a_second());
        stopped.go_on();
        EXPECT_EQ(VIP_STATE_CONNECTED, pair.server.state());
        EXPECT_EQ(static_cast<int>(VIP_STATE_CONNECTED), exit_code_of(fork_user(pair.server)));
        pair.expect_no_other_holds();
    },
};
