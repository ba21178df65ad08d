// SPDX-License-Identifier: MIT
//
// Two functions, of one card or of two, with a queue pair each and 64 KiB of memory each: where
// most cases begin.
#ifndef VIPL_DEVICES_TWO_HPP
#define VIPL_DEVICES_TWO_HPP

#include <cstring>

#include "devices/host.hpp"

namespace card {

/** What a pair of functions is to be. */
struct Setup {
    unsigned level = RNIC_LEVEL_DELIVERY;
    bool big_a = false, big_b = false;
    bool two_cards = false;
    unsigned rights = 3;
    bool connected = true;
    rnic_card_config config = small_config();
};

struct Two {
    static constexpr std::uint32_t kBytes = 65536;

    explicit Two(const Setup &setup = {});

    /** Over the whole of a's, or b's, memory from `offset` on. */
    Segment in_a(std::uint32_t offset, std::uint32_t length) const;
    Segment in_b(std::uint32_t offset, std::uint32_t length) const;
    Work receive(std::uint32_t length, std::uint32_t cookie = 70) const;
    Work send(std::uint32_t length, std::uint32_t cookie = 40) const;
    Work write(std::uint32_t length, std::uint32_t to_offset = 0, std::uint32_t cookie = 50) const;
    Work read(std::uint32_t length, std::uint32_t from_offset = 0, std::uint32_t cookie = 60) const;

    void post_a(const Work &work);
    void post_b(const Work &work);
    /** Runs until a's, or b's, queue has the next completion. */
    Completion next_a();
    Completion next_b();
    bool quiet_a(); ///< a's, or b's, queue has nothing more
    bool quiet_b();
    /** The next event of a driver; kind 0: there is none. */
    static Event event_of(Driver &driver);
    bool same(std::uint32_t offset_a, std::uint32_t offset_b, std::uint32_t bytes);
    unsigned state_of(Driver &driver, std::uint32_t qp);

    Host host;
    std::unique_ptr<Host> other;
    Driver a, b;
    std::unique_ptr<Pair> pair;
    std::uint64_t mem_a = 0, mem_b = 0;
    std::uint32_t tag_a = 0, tag_b = 0;

private:
    Completion next(Driver &driver, std::uint32_t cq);
};

/** Its last completion is DRAINED, and its state is ERROR with that code. */
void check_error(Two &two, Driver &driver, std::uint32_t qp, std::uint32_t cq, unsigned code);

} // namespace card

#endif
