// SPDX-License-Identifier: MIT
//
// POSIX fork, the processes: whatever a child does, and however it or its parent ends, changes
// nothing for the others; from where a program may fork; programs that are run.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/signals.hpp"
#include "support/dead_handles.hpp"
#include "support/forked.hpp"
#include "support/portable.hpp"
#include "support/tasks.hpp"

using namespace vipl_conformance;

namespace {

/** One message each way, on both sides at once. */
void exchange(Peer &peer, Endpoint &end)
{
    const Work in = end.receive(8);
    peer.sync();
    end.send("exchange");
    EXPECT(received(end.vi) == in.desc);
    EXPECT_EQ(std::string("exchange"), in.buffer.text());
    sent(end.vi);
}

void peer_of_a_parent(Peer &peer)
{
    Endpoint end(peer);
    end.connect();
    exchange(peer, end);
    exchange(peer, end); // a child has come and gone
    peer.sync();
}

/** The parent's side: a connection, a child that does something and ends, the connection. */
template <void (*act)(Peer &, Endpoint &), void (*judge)(Forked &)>
void parent_of_a_child(Peer &peer)
{
    Endpoint end(peer);
    end.connect();
    exchange(peer, end);
    Forked child([&](const ParentLine &) {
        peer.leave_line_to_parent();
        act(peer, end);
    });
    judge(child);
    exchange(peer, end);
    peer.sync();
}

void die_of(int number)
{
    std::signal(number, SIG_DFL);
    raise(number);
}

void leaves_at_once(Peer &, Endpoint &)
{
    _exit(0);
}
void exits(Peer &, Endpoint &)
{
    std::exit(0);
}
void is_killed(Peer &, Endpoint &)
{
    die_of(SIGKILL);
}
void crashes(Peer &, Endpoint &)
{
    die_of(SIGSEGV);
}
void runs_a_program(Peer &, Endpoint &)
{
    execlp("sh", "sh", "-c", "exit 7", static_cast<char *>(nullptr));
}
void closes_all(Peer &peer, Endpoint &end)
{
    EXPECT_EQ(VIP_INVALID_PARAMETER, VipDisconnect(end.vi));
    EXPECT_EQ(VIP_INVALID_PARAMETER, VipDestroyVi(end.vi));
    EXPECT_EQ(VIP_INVALID_PARAMETER, VipCloseNic(peer.nic()));
    std::exit(0);
}
void uses_the_library(Peer &, Endpoint &)
{
    exchange_within_this_process();
}

void well(Forked &child)
{
    child.finish();
}
void by_sigkill(Forked &child)
{
    child.finish_with_signal(SIGKILL);
}
void by_sigsegv(Forked &child)
{
    child.finish_with_signal(SIGSEGV);
}
void as_the_program(Forked &child)
{
    child.finish_with_exit(7);
}

} // namespace

#define CHILD_CASE(what) \
    TWO_PROCESS_CASE("a forked child that " what " changes nothing for parent and peer", "[fork][posix]")

CHILD_CASE("ends by _exit") = {peer_of_a_parent, parent_of_a_child<leaves_at_once, well>};
CHILD_CASE("ends by exit") = {peer_of_a_parent, parent_of_a_child<exits, well>};
CHILD_CASE("is killed") = {peer_of_a_parent, parent_of_a_child<is_killed, by_sigkill>};
CHILD_CASE("crashes") = {peer_of_a_parent, parent_of_a_child<crashes, by_sigsegv>};
CHILD_CASE("runs a program") = {peer_of_a_parent, parent_of_a_child<runs_a_program, as_the_program>};
CHILD_CASE("closes what is its parent's") = {peer_of_a_parent, parent_of_a_child<closes_all, well>};
CHILD_CASE("uses the library") = {peer_of_a_parent, parent_of_a_child<uses_the_library, well>};

// --- the parent ends -----------------------------------------------------------------------------

namespace {

constexpr unsigned long long kNotice = 1000; // milliseconds

/** Kills an orphan at the end. */
struct Orphan {
    ~Orphan() { kill(pid, SIGKILL); }
    pid_t pid;
};

/** The peer's side: the parent ends, its child lives. */
void sees_the_end(Peer &peer)
{
    Endpoint end(peer);
    end.receive(8);
    end.connect();
    const Orphan orphan{peer.receive<pid_t>()};
    try {
        peer.sync(); // ends with the parent
    } catch (const Failure &) {
    }
    const unsigned long long start = now_ms();
    EXPECT_STATUS(VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR, receive_failed(end.vi));
    EXPECT(now_ms() - start <= kNotice * timeout_scale());
    EXPECT(kill(orphan.pid, 0) == 0);
}

/** The parent's side, which ends somehow when its child lives and has a NIC handle of its own, if
 * `busy`. */
template <bool busy, void (*leave)(Peer &)>
void ends_before_its_child(Peer &peer)
{
    Endpoint end(peer);
    end.connect();
    const Forked child([&](const ParentLine &parent) {
        peer.leave_line_to_parent();
        if (busy) {
            exchange_within_this_process();
        }
        parent.tell();
        for (;;) {
            pause();
        }
    });
    child.await();
    peer.send(child.pid());
    leave(peer);
}

void killed(Peer &peer)
{
    peer.die();
}
void exiting(Peer &peer)
{
    peer.will_exit(3);
    _exit(3);
}
void running_a_program(Peer &peer)
{
    peer.will_exit(5);
    execlp("sh", "sh", "-c", "exit 5", static_cast<char *>(nullptr));
}

} // namespace

TWO_PROCESS_CASE("the peer of a killed parent notices within a second, though a forked child lives",
                 "[fork][posix]") = {sees_the_end, ends_before_its_child<false, killed>};

TWO_PROCESS_CASE(
    "the peer of a killed parent notices within a second, though a forked child uses the library",
    "[fork][posix]") = {sees_the_end, ends_before_its_child<true, killed>};

TWO_PROCESS_CASE("the peer of a parent that exits notices within a second, though a forked child lives",
                 "[fork][posix]") = {sees_the_end, ends_before_its_child<false, exiting>};

TWO_PROCESS_CASE(
    "the peer of a parent that runs a program notices within a second, though a forked child lives",
    "[fork][posix]") = {sees_the_end, ends_before_its_child<false, running_a_program>};

TWO_PROCESS_CASE("a parent that disconnects is gone for its peer, though a forked child lives",
                 "[VipDisconnect][fork][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.receive(8);
        end.connect();
        peer.sync(); // the other has disconnected
        const unsigned long long start = now_ms();
        receive_failed(end.vi);
        EXPECT(now_ms() - start <= kNotice * timeout_scale());
        peer.sync();
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        Forked child([&](const ParentLine &parent) {
            peer.leave_line_to_parent();
            parent.await();
        });
        REQUIRE_VIP(VipDisconnect(end.vi));
        peer.sync();
        peer.sync();
        child.tell();
        child.finish();
    },
};

namespace {

/** A page called "probe" that a forked child does not get. */
struct Unforked {
    Unforked()
    {
        const int fd = memfd_create("probe", MFD_CLOEXEC);
        EXPECT(ftruncate(fd, kBytes) == 0);
        page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
        EXPECT(page != MAP_FAILED && madvise(page, kBytes, MADV_DONTFORK) == 0);
    }
    ~Unforked() { munmap(page, kBytes); }
    static constexpr size_t kBytes = 65536;
    void *page;
};

/** The descriptors that a child has which is forked now. */
int descriptors_of_a_child()
{
    Forked child([](const ParentLine &) { _exit(static_cast<int>(count_entries_of("/proc/self/fd"))); });
    return WEXITSTATUS(child.end());
}

} // namespace

TEST_CASE("a forked child has no descriptor, mapping or thread of its parent's library",
          "[fork][posix][tasks]")
{
    { // what a process keeps once it has used the library is there now
        ConnectedPair first;
    }
    const int before = descriptors_of_a_child();
    ConnectedPair pair;
    const Nic idle;
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(pair.server, 1, &done)); // this thread has what it sleeps on
    Forked child([&](const ParentLine &) {
        EXPECT_EQ(before, static_cast<int>(count_entries_of("/proc/self/fd")));
        EXPECT_EQ(1u, count_entries_of("/proc/self/task"));
    });
    child.finish();
}

TWO_PROCESS_CASE("a forked child has nothing of its parent's connection to another process",
                 "[fork][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        peer.sync();
    },
    [](Peer &peer) {
        const int before = descriptors_of_a_child();
        Endpoint end(peer);
        end.connect();
        EXPECT_EQ(before, descriptors_of_a_child());
        const Unforked probe;
        Forked child([](const ParentLine &) {
            if (lines_with("/proc/self/maps", "memfd:probe").empty()) { // emulators keep such memory
                EXPECT_EQ(std::string(), lines_with("/proc/self/maps", segment_name()));
            }
        });
        child.finish();
        peer.sync();
    },
};

// --- from where one may fork ---------------------------------------------------------------------

namespace {

void nest(unsigned depth)
{
    const Nic nic;
    exchange_within_this_process();
    if (depth > 0) {
        Forked child([depth](const ParentLine &) { nest(depth - 1); });
        child.finish();
    }
    EXPECT(nic.attributes().MaxVI > 0);
    exchange_within_this_process();
}

constexpr int kExited = 9;

/** What a handler that forks has found. */
struct InCallback {
    std::atomic<int> result{-1}; // the child's wait status
    VIP_NIC_HANDLE nic = nullptr;
    bool returns = false; // the child returns from the handler
};

void VI_CALL fork_in_callback(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *)
{
    auto *const seen = static_cast<InCallback *>(context);
    const pid_t child = fork();
    if (child == 0) {
        alarm(case_limit());
        VIP_VI_STATE state = VIP_STATE_IDLE;
        VIP_NIC_ATTRIBUTES attributes{};
        bool good = VipQueryVi(vi, &state, nullptr, nullptr, nullptr) == VIP_INVALID_PARAMETER &&
                    VipQueryNic(nic, &attributes) == VIP_INVALID_PARAMETER;
        if (good && seen->returns) {
            std::atexit(
                [] { _exit(kExited); }); // the suite's other threads, which exit() expects, are not here
            return;                      // this thread is the child's only one: the process ends with it
        }
        try {
            exchange_within_this_process();
        } catch (const std::exception &) {
            good = false;
        }
        _exit(good ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    seen->result = status;
}

void fork_from_callback(bool returns)
{
    ConnectedPair pair;
    static InCallback seen; // a handler may still be returning when the case has ended
    seen.result = -1;
    seen.returns = returns;
    for (int i = 0; i < 2; ++i) { // the parent's thread goes on
        const Work in = pair.server_memory.transfer(pair.server_memory.bytes(4));
        seen.result = -1;
        post_recv(pair.server, in);
        REQUIRE_VIP(VipRecvNotify(pair.server, &seen, fork_in_callback));
        post_send(pair.client, pair.client_memory.transfer(pair.client_memory.text("fork")));
        sent(pair.client);
        for (const unsigned long long end = now_ms() + 2 * patience(); seen.result == -1 && now_ms() < end;) {
            give_way();
        }
        const int status = seen.result;
        EXPECT(WIFEXITED(status));
        EXPECT_EQ(returns ? kExited : 0, WEXITSTATUS(status));
    }
}

} // namespace

TEST_CASE("children of children of forked children use the library, each before and after", "[fork][posix]")
{
    ConnectedPair pair;
    Forked child([](const ParentLine &) { nest(5); });
    child.finish();
}

TEST_CASE("a callback may fork, and its child use the library", "[VipRecvNotify][fork][posix]")
{
    fork_from_callback(false);
}

TEST_CASE("a child forked in a callback that returns from it ends", "[VipRecvNotify][fork][posix]")
{
    fork_from_callback(true);
}

TEST_CASE("a hundred forks in a row leave nothing behind in the parent", "[fork][posix]")
{
    ConnectedPair pair;
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(pair.server, 1, &done)); // what this thread keeps, it has now
    const auto census = [] {
        return std::to_string(count_entries_of("/proc/self/fd")) + " descriptors, " +
               std::to_string(count_entries_of("/proc/self/task")) + " threads";
    };
    const std::string before = census();
    for (int i = 0; i < 100; ++i) {
        Forked child([&](const ParentLine &) {
            EXPECT_EQ(VIP_INVALID_PARAMETER, VipRecvWait(pair.server, VIP_INFINITE, &done));
        });
        child.finish();
    }
    EXPECT_EQ(before, census());
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(5));
    post_recv(pair.server, in);
    post_send(pair.client, pair.client_memory.transfer(pair.client_memory.text("after")));
    EXPECT(received(pair.server) == in.desc);
}

// --- a signal handler that forks while a call blocks ---------------------------------------------

namespace {

volatile std::sig_atomic_t g_forked;   // the handler's child, or 0 in that
volatile std::sig_atomic_t g_fork_due; // it is to fork, once

/** The thread may wait for a lock, also in malloc(): a child must not return there. */
bool is_inside_library()
{
    return VipQueryVi(nullptr, nullptr, nullptr, nullptr, nullptr) == VIP_ERROR_RESOURCE;
}

extern "C" void fork_in_handler(int)
{
    if (g_fork_due != 0 && !is_inside_library()) {
        g_fork_due = 0;
        g_forked = fork();
        if (g_forked == 0) {
            alarm(10 * timeout_scale()); // ends a child that hangs
        }
    }
}

/** Call in a thread that a handler forks while it sleeps. The child's result; the parent's is
 * VIP_INTERRUPTED. */
void forks_while_asleep(const std::function<VIP_RETURN()> &call)
{
    struct sigaction action = {}, saved = {};
    action.sa_handler = fork_in_handler;
    sigaction(SIGUSR1, &action, &saved);
    std::atomic<pid_t> thread{0};
    VIP_RETURN rc = VIP_SUCCESS;
    g_forked = -1;
    g_fork_due = 1;
    std::atomic<bool> over{false};
    std::thread caller([&] {
        thread = static_cast<pid_t>(syscall(SYS_gettid));
        rc = call();
        if (g_forked == 0) {
            _exit(static_cast<int>(rc));
        }
        over = true;
    });
    while (!over) { // a thread that has something to do now and then is not asleep for good
        if (thread != 0 && state_of(task_of(thread)) == 'S') {
            pthread_kill(caller.native_handle(), SIGUSR1);
        }
        give_way();
    }
    caller.join();
    sigaction(SIGUSR1, &saved, nullptr);
    int status = -1;
    waitpid(static_cast<pid_t>(g_forked), &status, 0);
    EXPECT_EQ(VIP_INTERRUPTED, rc);
    EXPECT_EQ(std::string("exited with status ") + std::to_string(VIP_INVALID_PARAMETER), show_end(status));
}

} // namespace

TEST_CASE("a blocked call that a signal handler forks ends in the child with VIP_INVALID_PARAMETER, at once",
          "[fork][posix]")
{
    ConnectedPair pair;
    const Cq cq(pair.server_nic);
    VIP_DESCRIPTOR *done = nullptr;
    VIP_VI_HANDLE from = nullptr;
    VIP_BOOLEAN queue = VIP_FALSE;
    forks_while_asleep([&] { return VipRecvWait(pair.server, VIP_INFINITE, &done); });
    forks_while_asleep([&] { return VipSendWait(pair.server, VIP_INFINITE, &done); });
    forks_while_asleep([&] { return VipCQWait(cq, VIP_INFINITE, &from, &queue); });
}

TEST_CASE(
    "a blocked connect that a signal handler forks ends in the child with VIP_INVALID_PARAMETER, at once",
    "[fork][posix]")
{
    const Nic nic;
    const Vi vi(nic);
    const std::string name = unique_discriminator();
    NetAddress local = nic.address(name), remote = nic.address(name + "nobody"), from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    forks_while_asleep(
        [&] { return VipConnectWait(nic, local, VIP_INFINITE, from, &attributes, &connection); });
    REQUIRE_VIP(VipConnectPeerRequest(vi, local, remote, 2 * patience()));
    forks_while_asleep([&] { return VipConnectPeerWait(vi, nullptr); });
}

// --- past the handlers, and without them ---------------------------------------------------------

#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
#define HAS_BARE_FORK
#endif
#endif

TEST_CASE("a child that was made past the fork handlers may open a NIC handle", "[VipOpenNic][fork][posix]")
{
#ifdef HAS_BARE_FORK
    const Nic nic;
    const pid_t child = _Fork();
    if (child == 0) {
        VIP_NIC_HANDLE own = nullptr;
        VIP_NIC_ATTRIBUTES attributes{};
        alarm(case_limit());
        bool good = VipOpenNic(device_under_test(), &own) == VIP_SUCCESS &&
                    VipQueryNic(nic, &attributes) == VIP_INVALID_PARAMETER &&
                    VipQueryNic(own, &attributes) == VIP_SUCCESS && VipCloseNic(own) == VIP_SUCCESS;
        _exit(good ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(std::string("exited with status 0"), show_end(status));
    EXPECT(nic.attributes().MaxVI > 0);
#else
    throw NotApplicable("the C library has no _Fork()");
#endif
}

TWO_PROCESS_CASE_WITH("VIPL_ATFORK=0",
                      "VIPL_ATFORK=0: no handlers, and a child begins when it opens a NIC handle",
                      "[VipOpenNic][fork][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        exchange(peer, end);
        exchange(peer, end);
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        exchange(peer, end);
        Forked child([&](const ParentLine &) {
            exchange_within_this_process();
            VIP_NIC_ATTRIBUTES attributes{};
            EXPECT_EQ(VIP_INVALID_PARAMETER, VipQueryNic(peer.nic(), &attributes));
        });
        child.finish();
        exchange(peer, end);
    },
};

// --- programs ------------------------------------------------------------------------------------

namespace {

int spawn(const char *script)
{
    char name[] = "sh", option[] = "-c";
    char *const words[] = {name, option, const_cast<char *>(script), nullptr};
    pid_t child = 0;
    EXPECT_EQ(0, posix_spawnp(&child, "sh", nullptr, nullptr, words, environ));
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string output_of(const char *script)
{
    std::string text;
    FILE *const file = popen(script, "re");
    EXPECT(file != nullptr);
    for (int c; (c = std::fgetc(file)) != EOF;) {
        text += static_cast<char>(c);
    }
    EXPECT_EQ(0, pclose(file));
    return text;
}

} // namespace

TWO_PROCESS_CASE("system, popen and posix_spawn with connected VIs leave the connection alone",
                 "[fork][posix]") = {
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        for (int i = 0; i < 4; ++i) {
            exchange(peer, end);
        }
    },
    [](Peer &peer) {
        Endpoint end(peer);
        end.connect();
        exchange(peer, end);
        EXPECT_EQ(3, WEXITSTATUS(std::system("exit 3")));
        exchange(peer, end);
        EXPECT_EQ(std::string("words\n"), output_of("echo words"));
        exchange(peer, end);
        EXPECT_EQ(4, spawn("exit 4"));
        exchange(peer, end);
    },
};

TEST_CASE("a program that is run has no descriptor of the library's", "[fork][posix]")
{
    const char *const list = "ls /proc/self/fd";
    const std::string before = output_of(list);
    ConnectedPair pair;
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(pair.server, 1, &done));
    EXPECT_EQ(before, output_of(list));
}
