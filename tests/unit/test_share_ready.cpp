// SPDX-License-Identifier: MIT
//
// White box: the descriptor of something shared. Whoever silences it looks again, for what came
// meanwhile has not signalled.
#include <poll.h>

#include <catch2/catch.hpp>

#include "internal.hpp"

extern "C" {
#include "share/rings.h"
}

namespace {

/** Something to take comes at the n-th look. */
struct Arrival {
    int looks = 0;
    int at;
};

bool look(const void *what)
{
    auto *const arrival = static_cast<Arrival *>(const_cast<void *>(what));
    return ++arrival->looks >= arrival->at;
}

bool is_readable(const vipl_waker &waker)
{
    pollfd set = {waker.fd, POLLIN, 0};
    return poll(&set, 1, 0) == 1;
}

struct Bell {
    Bell() { REQUIRE(vipl_waker_open(&waker) == 0); }
    ~Bell() { vipl_waker_close(&waker); }

    vipl_waker waker{};
    uint32_t signalled = 0;
};

} // namespace

TEST_CASE("a ready descriptor is silenced when there is nothing to take", "[share]")
{
    Bell ready_fd;
    vipl_ring_signal(&ready_fd.waker, &ready_fd.signalled);
    REQUIRE(is_readable(ready_fd.waker));
    Arrival never = {0, 1000};
    REQUIRE(vipl_ring_clear(&ready_fd.waker, &ready_fd.signalled, look, &never));
    REQUIRE_FALSE(is_readable(ready_fd.waker));
    REQUIRE(ready_fd.signalled == 0);
    vipl_ring_signal(&ready_fd.waker, &ready_fd.signalled);
    REQUIRE(is_readable(ready_fd.waker));
}

TEST_CASE("a ready descriptor stays readable while there is something to take", "[share]")
{
    Bell ready_fd;
    vipl_ring_signal(&ready_fd.waker, &ready_fd.signalled);
    Arrival there = {0, 1};
    REQUIRE_FALSE(vipl_ring_clear(&ready_fd.waker, &ready_fd.signalled, look, &there));
    REQUIRE(is_readable(ready_fd.waker));
}

TEST_CASE("what comes while a ready descriptor is silenced makes it readable again", "[share]")
{
    Bell ready_fd;
    vipl_ring_signal(&ready_fd.waker, &ready_fd.signalled);
    Arrival meanwhile = {0, 2}; // after the first look, when it has been signalled already
    REQUIRE_FALSE(vipl_ring_clear(&ready_fd.waker, &ready_fd.signalled, look, &meanwhile));
    REQUIRE(is_readable(ready_fd.waker));
    REQUIRE(ready_fd.signalled == 1);
}
