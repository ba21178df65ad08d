// SPDX-License-Identifier: MIT
// The steps of a script that move bytes.
#ifndef VIPL_TEST_SCRIPT_TRANSFERS_HPP
#define VIPL_TEST_SCRIPT_TRANSFERS_HPP

#include "calls.hpp"

Outcome send_some(const Step &step, Pair &pair);
Outcome receive_some(const Step &step, Pair &pair);

// Sends until the call would block, and compares that: EAGAIN, and no POLLOUT. How many bytes that
// takes differs between kinds of connections. The peer then reads as many, and POLLOUT comes back.
Outcome fill(const Step &step, Pair &pair, const Model &model);

// Sends to an end that is closed, or that neither reads nor writes any more. TCP answers with a
// reset some time later, so that the first sends may succeed; a kind of connection that knows
// better may fail at once. It must fail in the end, with EPIPE or ECONNRESET, and what had come
// before can be read.
Outcome dead_send(const Step &step, Pair &pair, const Model &model);

// Reads all that the peer has sent on this pair, whatever the model says: the number of bytes.
long drain(Pair &pair, int end, std::uint64_t until);

#endif
