// SPDX-License-Identifier: MIT
//
// The library's clock in the unit tests, which is theirs (-Wl,--wrap=vipl_now_ns): no case waits for real, and none is late.
#ifndef VIPL_TEST_UNIT_CLOCK_HPP
#define VIPL_TEST_UNIT_CLOCK_HPP

#include <cstdint>

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
};

} // namespace unit

#endif
