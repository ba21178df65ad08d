// SPDX-License-Identifier: MIT
//
// A clock, a store and a port of the tests' own. Time passes when it is waited for.
#ifndef VIPL_TESTS_DM_SIMULATED_HPP
#define VIPL_TESTS_DM_SIMULATED_HPP

#include <cstdint>
#include <deque>
#include <functional>

#include "recordings.hpp"

extern "C" {
#include "dm/capture.h"
#include "dm/sender.h"
}

namespace dm_test {

struct Clock {
    std::uint64_t now = 1000;
    std::uint64_t step = 0; // by which each look at the clock moves it
    dm_clock ops{read, wait_until, this};

private:
    static std::uint64_t read(void *self);
    static void wait_until(void *self, std::uint64_t time);
};

/** Bytes that can be read; the operations' table is the object's own. */
struct Store : dm_store {
    explicit Store(Bytes all);
    Bytes bytes_of;
    std::deque<dm_transfer> transfers;
    std::function<bool()> is_slow = [] { return false; }; // then nothing ends unless it is waited for
    int error = 0;                                        // of the next transfer
    std::uint64_t reads = 0;

private:
    dm_store_kind kind_{};
};

/** Takes packets, and gives their memory back `lag` packets later: it looks at them only then. */
struct Port : dm_port {
    Port();
    // sending
    std::function<enum dm_send_end()> answer = [] { return DM_SEND_ALL; }; // for the next packet
    std::function<void(const dm_packet &)> on_completed = [](const dm_packet &) {};
    std::function<void()> on_taken = [] {};
    std::deque<dm_packet> held;
    std::size_t lag = 0;
    unsigned idle = 0; // looks at the port since the last packet: after some, it goes on alone
    std::uint64_t done = 0;
    int failure = 0;
    // receiving
    std::function<std::uint32_t(std::uint8_t *at, std::uint32_t room)> arrive; // 0: none
    std::deque<std::pair<std::uint8_t *, std::uint32_t>> slots;
    std::size_t most_slots = 100000;
    std::uint64_t drops = 0; // since the last look
    std::uint64_t time = 1700000000000000000;
    std::uint64_t original = 0; // of what arrives, if it is longer than the slot
    bool is_halted = false;
    Clock *clock = nullptr; // that a wait moves

private:
    dm_port_kind kind_{};
};

/** Main memory of that size. */
dm_memory *memory_of(std::uint64_t bytes);

} // namespace dm_test

#endif
