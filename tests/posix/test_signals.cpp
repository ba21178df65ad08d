// SPDX-License-Identifier: MIT
//
// POSIX extensions: waits with a signal mask of their own, and calls that resume.
#include "conformance/connect_roles.hpp"
#include "conformance/signals.hpp"

#include <vipl/posix.h>

using namespace vipl_conformance;

namespace {

sigset_t set_of(std::initializer_list<int> signals)
{
    sigset_t set;
    sigemptyset(&set);
    for (const int number : signals) {
        sigaddset(&set, number);
    }
    return set;
}

/** SIGUSR1 is blocked in this thread, for the life of the object. */
class Blocked {
public:
    Blocked()
    {
        const sigset_t set = set_of({SIGUSR1});
        pthread_sigmask(SIG_BLOCK, &set, &before_);
    }
    ~Blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    Blocked(const Blocked &) = delete;
    Blocked &operator=(const Blocked &) = delete;

    static bool now()
    {
        sigset_t set;
        pthread_sigmask(SIG_SETMASK, nullptr, &set);
        return sigismember(&set, SIGUSR1) == 1;
    }

private:
    sigset_t before_;
};

using MaskedCall = VIP_RETURN (*)(ConnectedPair &, VIP_ULONG, const sigset_t *);

VIP_RETURN send_wait(ConnectedPair &pair, VIP_ULONG timeout, const sigset_t *mask)
{
    VIP_DESCRIPTOR *done = nullptr;
    return VipxSendWaitMask(pair.server, timeout, mask, &done);
}

VIP_RETURN recv_wait(ConnectedPair &pair, VIP_ULONG timeout, const sigset_t *mask)
{
    VIP_DESCRIPTOR *done = nullptr;
    return VipxRecvWaitMask(pair.server, timeout, mask, &done);
}

VIP_RETURN cq_wait(ConnectedPair &pair, VIP_ULONG timeout, const sigset_t *mask)
{
    const Cq cq(pair.server_nic);
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN queue = VIP_FALSE;
    return VipxCQWaitMask(cq, timeout, mask, &vi, &queue);
}

void lets_a_pending_signal_through(MaskedCall call)
{
    ConnectedPair pair;
    const Handler handler(0);
    const Blocked blocked;
    const sigset_t none = set_of({});
    pthread_kill(pthread_self(), SIGUSR1);
    EXPECT_EQ(0, static_cast<int>(Handler::calls));
    REQUIRE_RC(VIP_INTERRUPTED, call(pair, patience(), &none));
    EXPECT_EQ(1, static_cast<int>(Handler::calls));
    EXPECT(Blocked::now()); // the mask is the thread's again
}

void ends_whatever_the_handler_asks(MaskedCall call, int flags)
{
    ConnectedPair pair;
    const Handler handler(flags);
    const sigset_t none = set_of({});
    REQUIRE_RC(VIP_INTERRUPTED, interrupted([&] { return call(pair, patience(), &none); }));
    REQUIRE_RC(VIP_INTERRUPTED, interrupted([&] { return call(pair, patience(), nullptr); }));
}

void keeps_a_signal_out(MaskedCall call)
{
    ConnectedPair pair;
    const Handler handler(0);
    const sigset_t all = set_of({SIGUSR1});
    const sigset_t none = set_of({});
    {
        const Blocked blocked;
        pthread_kill(pthread_self(), SIGUSR1);
        const unsigned long long start = now_ms();
        REQUIRE_RC(VIP_TIMEOUT, call(pair, kMoment, &all));
        EXPECT(now_ms() - start + 1 >= kMoment);
        REQUIRE_RC(VIP_TIMEOUT, call(pair, kMoment, nullptr)); // as they are
        EXPECT_EQ(0, static_cast<int>(Handler::calls));
    }
    EXPECT_EQ(1, static_cast<int>(Handler::calls)); // it was kept, not lost
    REQUIRE_RC(VIP_TIMEOUT, call(pair, kMoment, &none));
}

// --- calls that resume ---

using TimedCall = VIP_RETURN (*)(ConnectedPair &, VIP_ULONG);

VIP_RETURN timed_connect_wait(ConnectedPair &pair, VIP_ULONG timeout)
{
    NetAddress local = pair.server_nic.address(unique_discriminator()), remote;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE connection = nullptr;
    return VipConnectWait(pair.server_nic, local, timeout, remote, &attributes, &connection);
}

VIP_RETURN timed_request(ConnectedPair &pair, VIP_ULONG timeout)
{
    const Vi vi(pair.server_nic);
    return request(vi, pair.server_nic.address("x"), pair.server_nic.address(unique_discriminator()),
                   timeout);
}

VIP_RETURN timed_peer_wait(ConnectedPair &pair, VIP_ULONG timeout)
{
    const Vi vi(pair.server_nic);
    NetAddress local = pair.server_nic.address("x"), remote = pair.server_nic.address(unique_discriminator());
    REQUIRE_VIP(VipConnectPeerRequest(vi, local, remote, timeout));
    return VipConnectPeerWait(vi, nullptr);
}

void lasts_its_time(TimedCall call)
{
    ConnectedPair pair;
    const Handler handler(0);
    REQUIRE_VIP(VipxSetRestart(pair.server_nic, VIP_TRUE));
    const unsigned long long end = now_ms() + patience();
    do { // a busy machine may send none in that time
        Handler::calls = 0;
        const unsigned long long start = now_ms();
        const VIP_RETURN rc = interrupted([&] { return call(pair, 3 * kMoment); });
        EXPECT(now_ms() - start + 1 >= 3 * kMoment);
        EXPECT(rc == VIP_TIMEOUT || rc == VIP_NO_MATCH);
    } while (Handler::calls < 2 && now_ms() < end);
    EXPECT(Handler::calls > 1);
}

bool register_timed_calls()
{
    struct Entry {
        const char *function;
        TimedCall call;
    };
    static const Entry entries[] = {
        {"VipSendWait",
         [](ConnectedPair &pair, VIP_ULONG timeout) { return send_wait(pair, timeout, nullptr); }},
        {"VipRecvWait",
         [](ConnectedPair &pair, VIP_ULONG timeout) { return recv_wait(pair, timeout, nullptr); }},
        {"VipCQWait", [](ConnectedPair &pair, VIP_ULONG timeout) { return cq_wait(pair, timeout, nullptr); }},
        {"VipConnectWait", timed_connect_wait},
        {"VipConnectRequest", timed_request},
        {"VipConnectPeerWait", timed_peer_wait}};
    for (const Entry &entry : entries) {
        register_case(std::string(entry.function) + " that resumes lasts as long with signals as without",
                      std::string("[") + entry.function + "][posix]", CATCH_INTERNAL_LINEINFO,
                      [&entry] { lasts_its_time(entry.call); });
    }
    return true;
}

bool register_calls()
{
    struct Entry {
        const char *function;
        MaskedCall call;
    };
    static const Entry entries[] = {
        {"VipxSendWaitMask", send_wait}, {"VipxRecvWaitMask", recv_wait}, {"VipxCQWaitMask", cq_wait}};
    for (const Entry &entry : entries) {
        const std::string name = entry.function;
        register_case(name + " lets a pending signal through, which ends it with VIP_INTERRUPTED",
                      "[" + name + "][posix]", CATCH_INTERNAL_LINEINFO,
                      [&entry] { lets_a_pending_signal_through(entry.call); });
        for (const int flags : {0, SA_RESTART}) {
            register_case(name + " ends with VIP_INTERRUPTED when a handler runs" +
                              (flags == 0 ? "" : ", SA_RESTART or not"),
                          "[" + name + "][posix]", CATCH_INTERNAL_LINEINFO,
                          [&entry, flags] { ends_whatever_the_handler_asks(entry.call, flags); });
        }
        register_case(name + " keeps a signal of its mask out until it has returned", "[" + name + "][posix]",
                      CATCH_INTERNAL_LINEINFO, [&entry] { keeps_a_signal_out(entry.call); });
    }
    return true;
}

[[maybe_unused]] const bool registered = register_calls() && register_timed_calls();

} // namespace

TEST_CASE("VipxRecvWaitMask takes what is there, a signal pending or not", "[VipxRecvWaitMask][posix]")
{
    ConnectedPair pair;
    const Handler handler(0);
    const Blocked blocked;
    const Work in = pair.server_memory.transfer(pair.server_memory.bytes(10));
    post_recv(pair.server, in);
    post_send(pair.client, pair.client_memory.transfer(pair.client_memory.text("there")));
    sent(pair.client);
    while (!pair.server.recv_queue_empty() && (in.poll() & VIP_STATUS_DONE) == 0) {
        give_way();
    }
    pthread_kill(pthread_self(), SIGUSR1);
    const sigset_t none = set_of({});
    VIP_DESCRIPTOR *done = nullptr;
    VIP_RETURN rc = VipxRecvWaitMask(pair.server, patience(), &none, &done);
    if (rc == VIP_INTERRUPTED) { // it was still on its way
        rc = VipxRecvWaitMask(pair.server, patience(), &none, &done);
    }
    REQUIRE_VIP(rc);
    EXPECT(done == in.desc);
}

TEST_CASE("waits with a mask check their arguments as those without", "[VipxCQWaitMask][posix]")
{
    ConnectedPair pair;
    const Cq cq(pair.server_nic);
    const sigset_t none = set_of({});
    VIP_DESCRIPTOR *done = nullptr;
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN queue = VIP_FALSE;
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxSendWaitMask(nullptr, 0, &none, &done));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxSendWaitMask(pair.server, 0, &none, nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxRecvWaitMask(nullptr, 0, &none, &done));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxRecvWaitMask(pair.server, 0, &none, nullptr));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxCQWaitMask(nullptr, 0, &none, &vi, &queue));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxCQWaitMask(cq, 0, &none, nullptr, &queue));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxCQWaitMask(cq, 0, &none, &vi, nullptr));
    REQUIRE_RC(VIP_TIMEOUT, VipxCQWaitMask(cq, 0, &none, &vi, &queue));
}

TEST_CASE("VipxSetRestart makes calls resume with the time they had left, and end again",
          "[VipxSetRestart][posix]")
{
    ConnectedPair pair;
    const Handler handler(0);
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_VIP(VipxSetRestart(pair.server_nic, VIP_TRUE));
    const unsigned long long start = now_ms();
    REQUIRE_RC(VIP_TIMEOUT, interrupted([&] { return VipRecvWait(pair.server, 2 * kMoment, &done); }));
    EXPECT(now_ms() - start + 1 >= 2 * kMoment);
    EXPECT(Handler::calls > 0);
    REQUIRE_VIP(VipxSetRestart(pair.server_nic, VIP_FALSE));
    REQUIRE_RC(VIP_INTERRUPTED, interrupted([&] { return VipRecvWait(pair.server, patience(), &done); }));
    REQUIRE_RC(VIP_INVALID_PARAMETER, VipxSetRestart(nullptr, VIP_TRUE));
}
