// SPDX-License-Identifier: MIT
//
// What is remembered of places: which of them are for short connections, and which have no VIPL
// program.
#include <cstring>

#include <catch2/catch.hpp>

#define _Static_assert static_assert
extern "C" {
#include "sockets/places.h"
}

namespace {

constexpr uint64_t kMs = 1000000;
constexpr unsigned kWorth = 64;  // messages
constexpr unsigned kAtOnce = 16; // losses
constexpr uint64_t kLossMs = 200;

/** A place of its own for each case: what one remembers is nothing to another. */
sock_address place(uint16_t port, uint8_t host = 1)
{
    sock_address address = {};
    address.host.s6_addr[10] = address.host.s6_addr[11] = 0xff;
    address.host.s6_addr[12] = 127;
    address.host.s6_addr[15] = host;
    address.port = port;
    return address;
}

void lose(const sock_address &where, unsigned times, uint64_t now, uint64_t messages = 2)
{
    for (unsigned i = 0; i < times; i++) {
        sock_place_has_ended(&where, messages, now);
    }
}

} // namespace

TEST_CASE("a place has some losses at once, and is for short connections then")
{
    const sock_address here = place(1001);
    const uint64_t now = 5000 * kMs;
    CHECK(!sock_place_is_for_short(&here, now));
    lose(here, kAtOnce, now);
    CHECK(!sock_place_is_for_short(&here, now));
    lose(here, 1, now, kWorth - 1);
    CHECK(sock_place_is_for_short(&here, now));
    CHECK(sock_place_is_for_short(&here, now + kLossMs * kMs - 1));
    CHECK(!sock_place_is_for_short(&here, now + kLossMs * kMs));
    lose(here, 1, now + kLossMs * kMs);
    CHECK(sock_place_is_for_short(&here, now + kLossMs * kMs));
}

TEST_CASE("losses are forgotten one after the other, and never so many that it takes long")
{
    const sock_address here = place(1002);
    const uint64_t now = 7000 * kMs;
    const uint64_t all = kAtOnce * kLossMs * kMs;
    lose(here, 100 * kAtOnce, now);
    CHECK(sock_place_is_for_short(&here, now + all - 1));
    CHECK(!sock_place_is_for_short(&here, now + all));
    lose(here, kAtOnce, now + 3 * all); // all are forgotten, and not more than all
    CHECK(!sock_place_is_for_short(&here, now + 3 * all));
    lose(here, 1, now + 3 * all);
    CHECK(sock_place_is_for_short(&here, now + 3 * all));
}

TEST_CASE("a connection that was worth its move clears its place")
{
    const sock_address here = place(1003);
    const uint64_t now = 9000 * kMs;
    lose(here, 2 * kAtOnce, now);
    CHECK(sock_place_is_for_short(&here, now));
    sock_place_has_ended(&here, kWorth, now);
    CHECK(!sock_place_is_for_short(&here, now));
    lose(here, kAtOnce, now);
    CHECK(!sock_place_is_for_short(&here, now));
}

TEST_CASE("a place without a VIPL program is remembered for a millisecond")
{
    const sock_address here = place(1004);
    const uint64_t now = 11000 * kMs;
    CHECK(!sock_place_was_plain(&here, now));
    sock_place_is_plain(&here, now);
    CHECK(sock_place_was_plain(&here, now + kMs - 1));
    CHECK(!sock_place_was_plain(&here, now + kMs));
    CHECK(!sock_place_is_for_short(&here, now));
}

TEST_CASE("places are told from each other, also where they take each other's row")
{
    const uint64_t now = 13000 * kMs;
    const sock_address here = place(2000);
    const sock_address other_host = place(2000, 2);
    lose(here, 2 * kAtOnce, now);
    sock_place_is_plain(&here, now);
    CHECK(!sock_place_is_for_short(&other_host, now));
    CHECK(!sock_place_was_plain(&other_host, now));
    for (uint16_t port = 2001; port < 2201; port++) { // more than there are rows
        const sock_address other = place(port);
        REQUIRE(!sock_place_is_for_short(&other, now));
        REQUIRE(!sock_place_was_plain(&other, now));
    }
    CHECK(sock_place_is_for_short(&here, now)); // to look is not to forget
    for (uint16_t port = 2001; port < 2201; port++) {
        const sock_address other = place(port);
        lose(other, 1, now);
        REQUIRE(!sock_place_is_for_short(&other, now)); // it has not the losses of the one before
    }
}
