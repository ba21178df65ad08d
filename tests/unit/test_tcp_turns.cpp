// SPDX-License-Identifier: MIT
//
// A program that polls one of several connections of the tcp device: how often that asks the system
// about the others as well.
#include <catch2/catch.hpp>

#include "internal.hpp"
#include "support/check.hpp"
#include "support/objects.hpp"

using namespace vipl_test;

namespace {

/** Looks at poll sets by this thread, so far. */
thread_local unsigned g_looks;

constexpr unsigned kPolls = 1000;

/** Looks at the other connections by polls of a VI to which nothing comes. */
unsigned looks_of_empty_polls(VIP_VI_HANDLE vi)
{
    const unsigned before = g_looks;
    VIP_DESCRIPTOR *done = nullptr;
    for (unsigned i = 0; i < kPolls; ++i) {
        REQUIRE_RC(VIP_NOT_DONE, VipRecvDone(vi, &done));
    }
    return g_looks - before;
}

} // namespace

extern "C" {
unsigned __real_vipl_pollset_ready(vipl_pollset *set, vipl_ready *out, unsigned max);
unsigned __wrap_vipl_pollset_ready(vipl_pollset *set, vipl_ready *out, unsigned max);

unsigned __wrap_vipl_pollset_ready(vipl_pollset *set, vipl_ready *out, unsigned max)
{
    ++g_looks;
    return __real_vipl_pollset_ready(set, out, max);
}
}

TEST_CASE("after several messages of one connection polls leave the others alone, and not for long")
{
    // Without the thread that makes progress as well, and would keep polls of this one away.
    const Nic here("tcp:127.0.0.1", Nic::Flags{VIPX_INLINE}), there("tcp:127.0.0.1");
    Memory ours(here, 4096), theirs(there, 4096);
    const Vi first(here), second(here), first_peer(there), second_peer(there);
    connect_pair(here, first, there, first_peer);
    connect_pair(here, second, there, second_peer);
    const auto exchange = [&](const Vi &from, const Vi &to) {
        const Work receive = ours.transfer(ours.bytes(8)), send = theirs.transfer(theirs.bytes(8));
        post_recv(to, receive);
        post_send(from, send);
        received(to);
        sent(from);
    };
    CHECK(looks_of_empty_polls(first) > kPolls / 2); // none has received
    for (int i = 0; i < 20; ++i) {
        exchange(first_peer, first);
    }
    CHECK(looks_of_empty_polls(first) < kPolls / 5);
    exchange(second_peer, second);
    CHECK(looks_of_empty_polls(second) > kPolls / 2); // it has received once
    CHECK(looks_of_empty_polls(first) > kPolls / 2);
}
