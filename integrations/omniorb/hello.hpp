// SPDX-License-Identifier: MIT
//
// The first bytes that each end of a connection sends: its version and its window. Both have to be
// the same: the ends begin to send by their own window, before they have read the peer's.
#ifndef OMNIVIPL_HELLO_HPP
#define OMNIVIPL_HELLO_HPP

#include <array>

#include "engine.hpp"

namespace omnivipl {

/** "VGIO", and three big-endian numbers of 32 bits: version, messages, bytes of a message. */
using Hello = std::array<unsigned char, 16>;

Hello make_hello(vipl_stream_window window);
bool is_hello(const Hello &bytes, vipl_stream_window window);

} // namespace omnivipl

#endif
