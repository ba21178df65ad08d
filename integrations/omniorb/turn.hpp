// SPDX-License-Identifier: MIT
//
// Turns to make a connection. A connection that is being made takes descriptors of both processes,
// which it gives back when it is there. A process with a thousand threads that call a server for
// the first time would have too few, so it makes some connections to a server at once, and others
// wait for their turn.
#ifndef OMNIVIPL_TURN_HPP
#define OMNIVIPL_TURN_HPP

#include <cstdint>
#include <string>

namespace omnivipl {

/** A turn to make a connection to an address, for as long as the object is there. */
class Turn {
public:
    /** Waits for it, until the deadline (vipl_now_ns()) at most. */
    Turn(const std::string &address, uint64_t deadline);
    ~Turn();
    Turn(const Turn &) = delete;
    Turn &operator=(const Turn &) = delete;
    /** False if the deadline has passed before. */
    bool has() const { return has_; }

private:
    const std::string address_;
    bool has_ = false; // constant after the constructor
};

} // namespace omnivipl

#endif
