// SPDX-License-Identifier: MIT
//
// POSIX extensions: threads that poll before they sleep (VIPX_SPIN).
#include <atomic>
#include <ctime>
#include <functional>
#include <thread>

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vipl/posix.h>

#include "conformance/connect_roles.hpp"
#include "conformance/signals.hpp"
#include "readiness.hpp"
#include "support/setting.hpp"

using namespace vipl_conformance;

namespace {

/** The longest that a thread polls in these cases: far longer than what they do meanwhile takes. */
constexpr const char *kSpinUs = "10000";
constexpr unsigned long long kIntoSpinNs = 200000;
constexpr unsigned long long kSoonNs = 5000000;

unsigned long long clock_ns(clockid_t clock)
{
    timespec time = {};
    clock_gettime(clock, &time);
    return static_cast<unsigned long long>(time.tv_sec) * 1000000000ULL +
           static_cast<unsigned long long>(time.tv_nsec);
}

/** A connected pair whose NIC handles spin; the server's receives may report to the queue. */
struct SpinningPair {
    explicit SpinningPair(bool queued = false)
        : server(server_nic, vi_attributes(), nullptr, queued ? static_cast<VIP_CQ_HANDLE>(cq) : nullptr)
    {
        connect_pair(server_nic, server, client_nic, client);
    }

    /** The descriptors are used again and again, each when the one before is complete. */
    void post()
    {
        receive.desc->CS.Status = 0;
        post_recv(server, receive);
    }
    void send()
    {
        message.desc->CS.Status = 0;
        post_send(client, message);
    }
    VIP_RETURN wait(VIP_ULONG timeout)
    {
        VIP_DESCRIPTOR *done = nullptr;
        return VipRecvWait(server, timeout, &done);
    }

    const EnvironmentSetting setting{"VIPL_SPIN_US", kSpinUs};
    const Nic server_nic{device_under_test(), Nic::Flags{VIPX_SPIN | VIPX_INLINE}};
    const Nic client_nic{device_under_test(), Nic::Flags{VIPX_SPIN | VIPX_INLINE}};
    Memory server_memory{server_nic}, client_memory{client_nic};
    const Work receive = server_memory.transfer(server_memory.bytes(8));
    const Work message = client_memory.transfer(client_memory.text("message."));
    const Cq cq{server_nic};
    const Vi server, client{client_nic};
};

/** Runs `act` in another thread, so long after `call` has begun in this one that a call which does
 * not spin sleeps by then. */
VIP_RETURN with_act_in(const std::function<VIP_RETURN()> &call, const std::function<void()> &act)
{
    std::atomic<bool> begun{false};
    std::thread other([&] {
        while (!begun) {
            give_way();
        }
        const unsigned long long end = clock_ns(CLOCK_MONOTONIC) + kIntoSpinNs;
        while (clock_ns(CLOCK_MONOTONIC) < end) {
        }
        act();
    });
    begun = true;
    const VIP_RETURN rc = call();
    other.join();
    return rc;
}

/** How a message was received that came while this thread waited for it. */
struct Received {
    bool awake;  /**< the thread did not sleep */
    bool prompt; /**< the message came soon, and no other thread needed this one's CPU meanwhile */
};

Received receive_one(SpinningPair &pair)
{
    rusage before = {}, after = {};
    pair.post();
    const unsigned long long start = clock_ns(CLOCK_MONOTONIC);
    const VIP_RETURN rc = with_act_in(
        [&] {
            getrusage(RUSAGE_THREAD, &before);
            const VIP_RETURN waited = pair.wait(patience());
            getrusage(RUSAGE_THREAD, &after);
            return waited;
        },
        [&] { pair.send(); });
    const bool soon = clock_ns(CLOCK_MONOTONIC) - start < kSoonNs;
    REQUIRE_VIP(rc);
    EXPECT(sent(pair.client) != nullptr);
    return {before.ru_nvcsw == after.ru_nvcsw, soon && before.ru_nivcsw == after.ru_nivcsw};
}

/** A thread rests from spinning where other threads need its CPU, or messages come late because
 * their senders have none: for two thirds of a second at most. So a busy machine shows nothing. */
void expect_awake_soon(SpinningPair &pair)
{
    constexpr int kAwake = 10, kLate = 5;
    constexpr unsigned long long kMostMs = 20000;
    const unsigned long long end = now_ms() + kMostMs;
    int awake = 0, late = 0;
    while (awake < kAwake && late < kLate && now_ms() < end) {
        const Received received = receive_one(pair);
        awake += received.awake ? 1 : 0;
        late += received.prompt ? 0 : 1;
    }
    EXPECT(awake == kAwake || late == kLate);
}

/** How many of ten calls of `call` ended as `expected` when `act` met each in a fresh thread, which
 * spins as long as it may. */
int met_in_spin(const std::function<VIP_RETURN()> &call, VIP_RETURN expected, int signal)
{
    int met = 0;
    for (int round = 0; round < 10; ++round) {
        VIP_RETURN rc = VIP_SUCCESS;
        std::thread caller([&] {
            const pthread_t self = pthread_self();
            rc = with_act_in(call, [self, signal] { pthread_kill(self, signal); });
        });
        caller.join();
        met += rc == expected ? 1 : 0;
    }
    return met;
}

} // namespace

TEST_CASE("with VIPX_SPIN a message that comes soon is found without a sleep", "[VipxOpenNic][posix][spin]")
{
    SpinningPair pair;
    expect_awake_soon(pair);
}

TEST_CASE("a thread whose waits are long stops spinning, and spins again when they are short",
          "[VipxOpenNic][posix][spin]")
{
    constexpr int kWaits = 20;
    SpinningPair pair;
    for (int i = 0; i < kWaits; ++i) { // the limit is halved each time, if the thread spins
        REQUIRE_RC(VIP_TIMEOUT, pair.wait(20));
    }
    const unsigned long long before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < kWaits; ++i) {
        REQUIRE_RC(VIP_TIMEOUT, pair.wait(20));
    }
    const unsigned long long used = clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    EXPECT(used < kWaits * 2000000ULL); // a tenth; it would be the half
    expect_awake_soon(pair);
}

TEST_CASE("a descriptor that is or becomes ready ends a wait that spins", "[VipxCQWaitFds][posix][spin]")
{
    SpinningPair pair(true);
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN is_recv = VIP_FALSE;
    int ends[2];
    EXPECT(pipe(ends) == 0);
    pollfd fd = {ends[0], POLLIN, 0};
    const auto wait = [&](VIP_ULONG timeout) {
        return VipxCQWaitFds(pair.cq, &fd, 1, timeout, nullptr, &vi, &is_recv);
    };
    REQUIRE_RC(VIP_TIMEOUT, wait(0));
    REQUIRE_RC(VIP_NOT_DONE,
               with_act_in([&] { return wait(VIP_INFINITE); }, [&] { EXPECT(write(ends[1], "x", 1) == 1); }));
    EXPECT_EQ(POLLIN, fd.revents);
    REQUIRE_RC(VIP_NOT_DONE, wait(VIP_INFINITE)); // it is ready still
    REQUIRE_RC(VIP_NOT_DONE, wait(0));
    pair.post();
    REQUIRE_VIP(with_act_in(
        [&] { // and an entry, once no descriptor is ready
            char byte;
            EXPECT(read(ends[0], &byte, 1) == 1);
            return wait(patience());
        },
        [&] { pair.send(); }));
    EXPECT(vi == pair.server);
    EXPECT_EQ(0, fd.revents);
    close(ends[0]);
    close(ends[1]);
}

TEST_CASE("a signal that comes while a thread spins ends its wait", "[VipRecvWait][posix][spin]")
{
    SpinningPair pair;
    const Handler handler(0);
    // A thread that is kept from running may not have begun its wait when the signal comes.
    EXPECT(met_in_spin([&] { return pair.wait(1000); }, VIP_INTERRUPTED, SIGUSR1) >= 5);
    // With a mask no signal is lost.
    sigset_t usr1, none;
    sigemptyset(&none);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    const auto masked = [&] {
        VIP_DESCRIPTOR *done = nullptr;
        return VipxRecvWaitMask(pair.server, patience(), &none, &done);
    };
    EXPECT(pthread_sigmask(SIG_BLOCK, &usr1, nullptr) == 0); // which new threads inherit
    const int met = met_in_spin(masked, VIP_INTERRUPTED, SIGUSR1);
    EXPECT(pthread_sigmask(SIG_UNBLOCK, &usr1, nullptr) == 0);
    EXPECT_EQ(10, met);
}

TEST_CASE("a wait that spins leaves the thread's signal mask as it was", "[VipRecvWait][posix][spin]")
{
    VIP_RETURN rc = VIP_SUCCESS;
    sigset_t before, after;
    EXPECT(pthread_sigmask(SIG_SETMASK, nullptr, &before) == 0); // connecting spins, too
    SpinningPair pair;
    std::thread caller([&] { // which has not learnt yet that its waits are long
        rc = pair.wait(5);
        pthread_sigmask(SIG_SETMASK, nullptr, &after);
    });
    caller.join();
    REQUIRE_RC(VIP_TIMEOUT, rc);
    for (int signal = 1; signal < SIGRTMIN; ++signal) {
        EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
    }
}

TEST_CASE("in a child that a handler forks while a thread spins, the wait is over",
          "[VipRecvWait][posix][spin][fork]")
{
    static std::atomic<pid_t> child;
    SpinningPair pair;
    struct sigaction action = {}, former = {};
    action.sa_handler = [](int) { child = fork(); };
    sigaction(SIGUSR2, &action, &former);
    child = -1;
    const pid_t parent = getpid();
    const int met = met_in_spin(
        [&] {
            const VIP_RETURN rc = pair.wait(1000);
            if (getpid() != parent) {
                _exit(rc == VIP_INVALID_PARAMETER ? 0 : 1);
            }
            int status = -1;
            return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? rc : VIP_ERROR_RESOURCE;
        },
        VIP_INTERRUPTED, SIGUSR2);
    sigaction(SIGUSR2, &former, nullptr);
    EXPECT(met >= 5);
}
