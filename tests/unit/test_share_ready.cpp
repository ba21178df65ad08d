// SPDX-License-Identifier: MIT
//
// White box: the descriptor of something shared. Whoever silences it looks again, for what came meanwhile has not rung.
#include <poll.h>

#include <catch2/catch.hpp>

#include "internal.hpp"

extern "C" {
#include "share/shm.h"
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
    uint32_t rung = 0;
};

} // namespace

TEST_CASE("a ready descriptor is silenced when there is nothing to take", "[share]")
{
    Bell bell;
    vipl_board_ring(&bell.waker, &bell.rung);
    REQUIRE(is_readable(bell.waker));
    Arrival never = {0, 1000};
    REQUIRE(vipl_board_hush(&bell.waker, &bell.rung, look, &never));
    REQUIRE_FALSE(is_readable(bell.waker));
    REQUIRE(bell.rung == 0);
    vipl_board_ring(&bell.waker, &bell.rung);
    REQUIRE(is_readable(bell.waker));
}

TEST_CASE("a ready descriptor stays readable while there is something to take", "[share]")
{
    Bell bell;
    vipl_board_ring(&bell.waker, &bell.rung);
    Arrival there = {0, 1};
    REQUIRE_FALSE(vipl_board_hush(&bell.waker, &bell.rung, look, &there));
    REQUIRE(is_readable(bell.waker));
}

TEST_CASE("what comes while a ready descriptor is silenced makes it readable again", "[share]")
{
    Bell bell;
    vipl_board_ring(&bell.waker, &bell.rung);
    Arrival meanwhile = {0, 2}; // after the first look, when it has been signalled already
    REQUIRE_FALSE(vipl_board_hush(&bell.waker, &bell.rung, look, &meanwhile));
    REQUIRE(is_readable(bell.waker));
    REQUIRE(bell.rung == 1);
}
