// SPDX-License-Identifier: MIT
//
// POSIX extensions: signals that come while a call on a shared object blocks.
#include <vipl/posix.h>

#include "conformance/signals.hpp"
#include "family.hpp"

using namespace vipl_conformance;

namespace {

/** Shareable objects to block on. */
struct Quiet {
    Nic nic{device_under_test(), true};
    Memory memory{nic};
    Cq cq{nic};
    Vi vi{nic}, other{nic}, asking{nic};
    std::string name = unique_discriminator();
};

using Call = VIP_RETURN (*)(Quiet &, VIP_ULONG);

VIP_RETURN recv_wait(Quiet &quiet, VIP_ULONG timeout)
{
    VIP_DESCRIPTOR *done = nullptr;
    return VipRecvWait(quiet.vi, timeout, &done);
}

VIP_RETURN send_wait(Quiet &quiet, VIP_ULONG timeout)
{
    VIP_DESCRIPTOR *done = nullptr;
    return VipSendWait(quiet.vi, timeout, &done);
}

VIP_RETURN cq_wait(Quiet &quiet, VIP_ULONG timeout)
{
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    return VipCQWait(quiet.cq, timeout, &vi, &recv);
}

VIP_RETURN connect_wait(Quiet &quiet, VIP_ULONG timeout)
{
    NetAddress listen = quiet.nic.address(quiet.name);
    NetAddress from;
    VIP_VI_ATTRIBUTES attributes{};
    VIP_CONN_HANDLE request = nullptr;
    return VipConnectWait(quiet.nic, listen, timeout, from, &attributes, &request);
}

/** Nobody listens there. */
VIP_RETURN connect_request(Quiet &quiet, VIP_ULONG timeout)
{
    NetAddress local = quiet.nic.address(quiet.name + "c");
    NetAddress remote = quiet.nic.address(quiet.name);
    return VipConnectRequest(quiet.asking, local, remote, timeout, nullptr);
}

VIP_RETURN peer_wait(Quiet &quiet, VIP_ULONG timeout)
{
    NetAddress local = quiet.nic.address(quiet.name + "a");
    NetAddress remote = quiet.nic.address(quiet.name + "b");
    VIP_VI_ATTRIBUTES attributes{};
    REQUIRE_VIP(VipConnectPeerRequest(quiet.other, local, remote, timeout));
    return VipConnectPeerWait(quiet.other, &attributes);
}

struct Entry {
    const char *function;
    Call call;
    VIP_RETURN when_over; // what it returns once its time is over
};
const Entry kCalls[] = {{"VipRecvWait", recv_wait, VIP_TIMEOUT},
                        {"VipSendWait", send_wait, VIP_TIMEOUT},
                        {"VipCQWait", cq_wait, VIP_TIMEOUT},
                        {"VipConnectWait", connect_wait, VIP_TIMEOUT},
                        {"VipConnectRequest", connect_request, VIP_NO_MATCH}, // nobody listens
                        {"VipConnectPeerWait", peer_wait, VIP_NO_MATCH}};

bool register_calls()
{
    for (const Entry &entry : kCalls) {
        const std::string name = entry.function;
        const std::string tags = "[" + name + "][sharing][posix]";
        register_case(
            "a signal ends " + name + " on a shared object", tags, CATCH_INTERNAL_LINEINFO, [&entry] {
                Quiet quiet;
                const Handler handler(SA_RESTART);
                REQUIRE_RC(VIP_INTERRUPTED, interrupted([&] { return entry.call(quiet, patience()); }));
            });
        register_case(name + " on a shared object resumes after a signal, if it is to", tags,
                      CATCH_INTERNAL_LINEINFO, [&entry] {
                          Quiet quiet;
                          const Handler handler(0);
                          REQUIRE_VIP(VipxSetRestart(quiet.nic, VIP_TRUE));
                          const unsigned long long start = now_ms();
                          const VIP_RETURN rc =
                              interrupted([&] { return entry.call(quiet, 2 * short_while()); });
                          const unsigned long long took = now_ms() - start;
                          REQUIRE_VIP(VipxSetRestart(quiet.nic, VIP_FALSE));
                          REQUIRE_RC(entry.when_over, rc);
                          EXPECT(took + 1 >= 2 * short_while());
                          EXPECT(Handler::calls > 0);
                      });
    }
    return true;
}

[[maybe_unused]] const bool registered = register_calls();

} // namespace

TEST_CASE("waits with a mask on shared objects let a pending signal through", "[sharing][posix]")
{
    const Quiet quiet;
    const Handler handler(0);
    VIP_DESCRIPTOR *done = nullptr;
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN recv = VIP_FALSE;
    sigset_t none, all, before;
    sigemptyset(&none);
    sigemptyset(&all);
    sigaddset(&all, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const auto pending = [] {
        Handler::calls = 0;
        pthread_kill(pthread_self(), SIGUSR1);
    };
    pending();
    const VIP_RETURN kept = VipxRecvWaitMask(quiet.vi, kMoment, &all, &done);
    const int handled = Handler::calls;
    const VIP_RETURN recv_rc = VipxRecvWaitMask(quiet.vi, patience(), &none, &done);
    pending();
    const VIP_RETURN send_rc = VipxSendWaitMask(quiet.vi, patience(), &none, &done);
    pending();
    const VIP_RETURN cq_rc = VipxCQWaitMask(quiet.cq, patience(), &none, &vi, &recv);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    REQUIRE_RC(VIP_TIMEOUT, kept);
    EXPECT_EQ(0, handled);
    REQUIRE_RC(VIP_INTERRUPTED, recv_rc);
    REQUIRE_RC(VIP_INTERRUPTED, send_rc);
    REQUIRE_RC(VIP_INTERRUPTED, cq_rc);
    EXPECT_EQ(1, static_cast<int>(Handler::calls));
}

TEST_CASE("a signal in one process ends no call of another", "[sharing][posix]")
{
    const Quiet quiet;
    const Handler handler(0);
    const Gate ready;
    Fork child([&] {
        ready.open();
        VIP_DESCRIPTOR *done = nullptr;
        REQUIRE_RC(VIP_TIMEOUT, VipRecvWait(quiet.vi, 3 * kMoment, &done));
    });
    ready.pass();
    VIP_DESCRIPTOR *done = nullptr;
    REQUIRE_RC(VIP_INTERRUPTED, interrupted([&] { return VipRecvWait(quiet.vi, patience(), &done); }));
    child.finish();
}
