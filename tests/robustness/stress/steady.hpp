// SPDX-License-Identifier: MIT
//
// Two programs that exchange without a pause until they are told to end, while something happens to
// a third. What they have done is counted in memory that all share.
#ifndef VIPL_STRESS_STEADY_HPP
#define VIPL_STRESS_STEADY_HPP

#include "exchange.hpp"

namespace stress {

struct Steady {
    std::atomic<unsigned> turns[2]; // of each side
    std::atomic<unsigned> last;     // the turn before which both end; 0: not known yet
    std::atomic<bool> stop;
};

/** A thread of a role that others of the same role would outlive: what it complains of ends the
 * process. */
inline std::function<void()> or_end(std::function<void()> body)
{
    return [body = std::move(body)] {
        try {
            body();
        } catch (const std::exception &error) {
            std::cerr << "[child] " << error.what() << std::endl;
            _exit(1);
        }
    };
}

/** Side 0 accepts, side 1 requests; then turns until `stop`. Side 0 says which turn is the last
 * one: the other is one turn ahead at most, and begins none after that before side 0 has begun its
 * next one. */
inline void exchange_steadily(const Nic &nic, const std::string &name, Steady &steady, unsigned side,
                              VIP_ULONG limit)
{
    Exchange exchange(nic, 1 + side, VIP_SERVICE_RELIABLE_DELIVERY, limit);
    REQUIRE_VIP(side == 0 ? accept_on(nic, name, exchange.vi) : request_to(nic, name, exchange.vi));
    EXPECT(exchange.greet());
    while (steady.last == 0 || exchange.turns() < steady.last) {
        if (side == 0 && steady.stop && steady.last == 0) {
            steady.last = exchange.turns() + 2;
        }
        EXPECT(exchange.turn());
        steady.turns[side]++;
    }
}

} // namespace stress

#endif
