// SPDX-License-Identifier: MIT
//
// POSIX extensions: calls made by signal handlers, and what the library leaves alone of the
// program's signals.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include <dirent.h>
#include <sys/time.h>

#include "conformance/notify_log.hpp"
#include "conformance/signals.hpp"
#include "support/not_for_handlers.hpp"

using namespace vipl_conformance;

namespace {

/** A handler for SIGUSR1 that calls a function, for the life of the object. */
class Calling {
public:
    explicit Calling(void (*function)())
    {
        called = function;
        struct sigaction action = {};
        action.sa_handler = [](int) {
            const int saved = errno;
            called();
            errno = saved;
        };
        sigaction(SIGUSR1, &action, &before_);
    }
    ~Calling() { sigaction(SIGUSR1, &before_, nullptr); }
    Calling(const Calling &) = delete;
    Calling &operator=(const Calling &) = delete;

private:
    static inline void (*volatile called)() = nullptr;
    struct sigaction before_ = {};
};

/** What a handler does while its thread sleeps: one step a call, since data may need time to
 * arrive. */
struct Errand {
    VIP_VI_HANDLE server, client; // another connection's
    VIP_CQ_HANDLE cq;             // of `server`'s receives
    Work in, out;
    VIP_VI_HANDLE sleeper; // whose peer the thread waits for
    Work last;
    std::atomic<int> step{0};
    std::atomic<int> wrong{0};
};
Errand *g_errand;

void run_errand()
{
    Errand &errand = *g_errand;
    VIP_DESCRIPTOR *done = nullptr;
    VIP_VI_STATE state = VIP_STATE_IDLE;
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    VIP_RETURN rc = VIP_SUCCESS;
    switch (errand.step) {
    case 0:
        rc = VipQueryVi(errand.server, &state, nullptr, nullptr, nullptr);
        errand.wrong += rc == VIP_SUCCESS && state != VIP_STATE_CONNECTED ? 1 : 0;
        break;
    case 1:
        rc = VipPostRecv(errand.server, errand.in.desc, errand.in.handle);
        break;
    case 2:
        rc = VipPostSend(errand.client, errand.out.desc, errand.out.handle);
        break;
    case 3:
        rc = VipSendDone(errand.client, &done);
        errand.wrong += rc == VIP_SUCCESS && done != errand.out.desc ? 1 : 0;
        break;
    case 4:
        rc = VipCQDone(errand.cq, &vi, &recv);
        errand.wrong += rc == VIP_SUCCESS && (vi != errand.server || recv != VIP_TRUE) ? 1 : 0;
        break;
    case 5:
        rc = VipRecvDone(errand.server, &done);
        errand.wrong += rc == VIP_SUCCESS && done != errand.in.desc ? 1 : 0;
        break;
    case 6:
        rc = VipPostSend(errand.sleeper, errand.last.desc, errand.last.handle);
        break;
    default:
        return;
    }
    if (rc == VIP_SUCCESS) {
        errand.step += 1;
    } else if (rc != VIP_NOT_DONE && rc != VIP_ERROR_RESOURCE) {
        errand.wrong += 1;
    }
}

Bystander *g_bystander;
std::array<std::atomic<int>, kNotForHandlersCount> g_refusals, g_runs;

void try_everything()
{
    for (size_t i = 0; i < kNotForHandlersCount; ++i) {
        const VIP_RETURN rc = kNotForHandlers[i].call(*g_bystander);
        (rc == VIP_ERROR_NOT_SUPPORTED ? g_refusals : g_runs)[i] += 1;
    }
}

void start_counting()
{
    for (size_t i = 0; i < kNotForHandlersCount; ++i) {
        g_refusals[i] = g_runs[i] = 0;
    }
}

/** A call that fewer than five handlers were refused, or nullptr. */
const char *not_yet_refused()
{
    for (size_t i = 0; i < kNotForHandlersCount; ++i) {
        if (g_refusals[i] < 5) {
            return kNotForHandlers[i].name;
        }
    }
    return nullptr;
}

/** The numbers of this process's threads. */
std::vector<std::string> threads()
{
    std::vector<std::string> found;
    if (DIR *dir = opendir("/proc/self/task")) {
        while (const dirent *entry = readdir(dir)) {
            if (entry->d_name[0] != '.') {
                found.emplace_back(entry->d_name);
            }
        }
        closedir(dir);
    }
    return found;
}

unsigned long long blocked_signals(const std::string &thread)
{
    std::ifstream status("/proc/self/task/" + thread + "/status");
    std::string word;
    while (status >> word) {
        if (word == "SigBlk:") {
            status >> word;
            return std::stoull(word, nullptr, 16);
        }
    }
    return 0;
}

/** What a process has of its own about signals. */
struct Signals {
    Signals()
    {
        for (int number = 1; number < NSIG; ++number) {
            struct sigaction action = {};
            if (sigaction(number, nullptr, &action) == 0) {
                text << number << ':' << reinterpret_cast<const void *>(action.sa_handler) << ','
                     << action.sa_flags << ' ';
            }
        }
        sigset_t mask;
        pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        for (int number = 1; number < NSIG; ++number) {
            text << sigismember(&mask, number);
        }
        for (const auto timer :
             {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}) { // an int, or of a type of its own
            itimerval value = {};
            getitimer(timer, &value);
            text << ' ' << (value.it_value.tv_sec != 0 || value.it_value.tv_usec != 0);
        }
    }
    std::ostringstream text;
};

} // namespace

TEST_CASE("handlers may post, reap and query while their thread sleeps in a call", "[VipPostSend][posix]")
{
    ConnectedPair sleeping;
    Nic server_nic, client_nic;
    const Memory memory(server_nic), client_memory(client_nic);
    const Cq cq(server_nic);
    const Vi server(server_nic, vi_attributes(), nullptr, cq), client(client_nic);
    connect_pair(server_nic, server, client_nic, client);
    Memory in(server_nic), out(client_nic);
    Errand errand;
    errand.server = server;
    errand.client = client;
    errand.cq = cq;
    errand.in = in.transfer(in.bytes(8));
    errand.out = out.transfer(out.text("by hand."));
    errand.sleeper = sleeping.client;
    errand.last = sleeping.client_memory.transfer(sleeping.client_memory.text("wake up"));
    const Work awaited = sleeping.server_memory.transfer(sleeping.server_memory.bytes(16));
    post_recv(sleeping.server, awaited);
    REQUIRE_VIP(VipxSetRestart(sleeping.server_nic, VIP_TRUE));
    g_errand = &errand;
    VIP_DESCRIPTOR *done = nullptr;
    {
        const Calling handler(run_errand);
        REQUIRE_VIP(interrupted([&] { return VipRecvWait(sleeping.server, patience(), &done); }));
    }
    EXPECT(done == awaited.desc);
    EXPECT_EQ(7, errand.step.load());
    EXPECT_EQ(0, errand.wrong.load());
    EXPECT_EQ(std::string("by hand."), errand.in.buffer.text());
}

TEST_CASE("all other calls of a handler whose thread is in a call are VIP_ERROR_NOT_SUPPORTED",
          "[VipRecvWait][posix]")
{
    ConnectedPair pair;
    Bystander bystander;
    g_bystander = &bystander;
    start_counting();
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_VIP(VipxSetRestart(pair.server_nic, VIP_TRUE));
    const Calling handler(try_everything);
    // Signals before and after find the thread outside.
    const unsigned long long end = now_ms() + patience();
    while (not_yet_refused() != nullptr && now_ms() < end) {
        REQUIRE_RC(VIP_TIMEOUT, interrupted([&] { return VipRecvWait(pair.server, kMoment, &done); }));
    }
    if (const char *name = not_yet_refused()) {
        throw Failure(std::string(name) + " was not refused");
    }
}

TEST_CASE("a handler that has interrupted nothing of the library's may call all of it",
          "[VipQueryNic][posix]")
{
    Bystander bystander;
    g_bystander = &bystander;
    start_counting();
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(VIP_TIMEOUT,
               VipRecvWait(bystander.vi, 0, &done)); // what a thread's first wait takes from the heap
    const Calling handler(try_everything);
    raise(SIGUSR1);
    for (size_t i = 0; i < kNotForHandlersCount; ++i) {
        EXPECT_EQ(1, g_runs[i].load());
    }
}

TEST_CASE("the library's threads block every signal", "[VipRecvNotify][posix][tasks]")
{
    NotifyLog log;
    ConnectedPair pair;
    const std::vector<std::string> before = threads();
    REQUIRE_VIP(VipRecvNotify(pair.server, log.context(), NotifyLog::vi_handler));
    REQUIRE_VIP(VipRecvNotify(pair.client, log.context(), NotifyLog::vi_handler));
    unsigned found = 0;
    for (const std::string &thread : threads()) {
        if (std::find(before.begin(), before.end(), thread) != before.end()) {
            continue;
        }
        ++found;
        const unsigned long long blocked = blocked_signals(thread);
        for (int number = 1; number < 32; ++number) {
            if (number != SIGKILL && number != SIGSTOP) {
                EXPECT((blocked >> (number - 1) & 1) != 0);
            }
        }
        for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) { // the C library has some of its own below
            EXPECT((blocked >> (number - 1) & 1) != 0);
        }
    }
    EXPECT(found > 0 || before.size() > 2); // some may have been there already
}

TEST_CASE("signal handlers, masks and timers are the program's own", "[VipOpenNic][posix]")
{
    const Signals before;
    {
        NotifyLog log;
        ConnectedPair pair;
        REQUIRE_VIP(VipRecvNotify(pair.server, log.context(), NotifyLog::vi_handler));
        post_recv(pair.server, pair.server_memory.transfer(pair.server_memory.bytes(8)));
        post_send(pair.client, pair.client_memory.transfer(pair.client_memory.text("a call")));
        log.call(0);
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(pair.client, kMoment, &done));
        EXPECT_EQ(before.text.str(), Signals().text.str());
    }
    EXPECT_EQ(before.text.str(), Signals().text.str());
}

TWO_PROCESS_CASE("a peer that is killed while it is sent to raises no SIGPIPE", "[VipPostSend][posix]") = {
    [](Peer &peer) {
        static volatile std::sig_atomic_t raised;
        raised = 0;
        struct sigaction action = {}, before = {};
        action.sa_handler = [](int) { raised = 1; };
        sigaction(SIGPIPE, &action, &before);
        Endpoint end(peer, 16 * 1024);
        end.connect();
        const RemoteSpan there = peer.receive<RemoteSpan>();
        const Work out = end.memory.rdma(VIP_CONTROL_OP_RDMAWRITE, there, end.memory.bytes(16 * 1024));
        VIP_RETURN rc = VIP_SUCCESS;
        const unsigned long long limit = now_ms() + patience();
        while (rc == VIP_SUCCESS && now_ms() < limit) {
            VIP_DESCRIPTOR *done = nullptr;
            out.desc->CS.Status = 0;
            post_send(end.vi, out);
            rc = VipSendWait(end.vi, patience(), &done);
        }
        EXPECT(rc != VIP_SUCCESS);
        end.vi.await(VIP_STATE_ERROR);
        sigaction(SIGPIPE, &before, nullptr);
        EXPECT_EQ(0, static_cast<int>(raised));
    },
    [](Peer &peer) {
        Memory memory(peer.nic(), 32 * 1024, rdma_memory());
        Endpoint end(peer, 16 * 1024);
        end.connect();
        const Span span = memory.bytes(16 * 1024);
        peer.send(span.remote());
        let_a_moment_pass();
        peer.die();
    },
};
