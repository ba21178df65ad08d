// SPDX-License-Identifier: MIT
//
// Memory that this process shows to peers, and a link to this process itself that maps it.
#ifndef VIPL_UNIT_SHOWN_HPP
#define VIPL_UNIT_SHOWN_HPP

#include <catch2/catch.hpp>

#include "internal.hpp"

extern "C" {
#include "backends/loopback/mapped.h"
}

namespace unit {

class Shown {
public:
    static constexpr std::size_t kBytes = 1 << 20;

    Shown()
    {
        vipl_shm shm{};
        REQUIRE(vipl_shm_create(&shm, "vipl-test", kBytes) == 0);
        base = static_cast<unsigned char *>(shm.base);
        vipl_shm_show(&shm);
        CHECK(shm.fd == -1);
    }
    vipl_mappable at(std::size_t offset, std::size_t bytes = 1) const
    {
        vipl_mappable where{};
        vipl_shm_find_mappable(base + offset, bytes, &where);
        return where;
    }

    unsigned char *base;
};

class Link {
public:
    Link()
    {
        link.peer.pid = vipl_pid();
        vipl_biased_init(&link.tx, VIPL_RANK_BACKEND_TX);
    }
    ~Link() { vipl_lo_mapped_free(&link); }
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;

    unsigned char *find(const vipl_mappable &where, std::size_t bytes = 1)
    {
        return vipl_lo_mapped_find(&link, &where, bytes);
    }

    lo_link link{};
};

} // namespace unit

#endif
