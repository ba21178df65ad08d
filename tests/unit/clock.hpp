// SPDX-License-Identifier: MIT
//
// The library's clock in the unit tests, which is theirs (-Wl,--wrap=vipl_now_ns): no case waits
// for real, and none is late.
#ifndef VIPL_TEST_UNIT_CLOCK_HPP
#define VIPL_TEST_UNIT_CLOCK_HPP

#include <cstdint>
#include <functional>

namespace unit {

/** Lets that time pass at once. */
void pass_ms(std::uint64_t ms);

/** No time passes meanwhile, however long a busy machine takes. */
class StoppedClock {
public:
    StoppedClock();
    ~StoppedClock();
    StoppedClock(const StoppedClock &) = delete;
    StoppedClock &operator=(const StoppedClock &) = delete;

    /** Moves the hands. */
    static void pass_ns(std::uint64_t ns);
};

/** The library's pauses (vipl_pause()) are over when the function returns, which gets their length,
 * and runs in the thread that pauses. */
class Pauses {
public:
    explicit Pauses(std::function<void(std::uint64_t ns)> pause);
    ~Pauses(); // when no thread pauses any more
    Pauses(const Pauses &) = delete;
    Pauses &operator=(const Pauses &) = delete;
};

} // namespace unit

#endif
