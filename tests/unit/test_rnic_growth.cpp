// SPDX-License-Identifier: MIT
//
// White box: a post that finds no room while another thread is making some is not forgotten: that
// thread makes room once more. Otherwise the post would stay with core until something completes,
// or for ever.
#include <catch2/catch.hpp>

extern "C" {
#include "rnic_growth.h"
}

TEST_CASE("room that is wanted while a thread makes some is made as well", "[rnic]")
{
    const unsigned times = GENERATE(1u, 2u, 3u, 10u);
    bool left = true;
    CHECK(unit_growth(times, &left) >= times);
    CHECK_FALSE(left);
}
