// SPDX-License-Identifier: MIT
// The steps of a script that use an epoll set.
#ifndef VIPL_TEST_SCRIPT_EDGES_HPP
#define VIPL_TEST_SCRIPT_EDGES_HPP

#include "calls.hpp"

Outcome control(const Step &step, Pair &pair);

// Level triggered: the outcome is all that is reported, in the order of the ends.
Outcome wait_for_levels(Pair &pair);
Outcome wait_nested(Pair &pair);

// Whether the model says that the next epoll_wait must report this end, whose state is `state`.
bool must_report(const Model &model, int end, std::uint32_t state);

// Edge triggered. More edges than the program asked for are the kernel's affair: it reports when
// anything happened on a connection, its own last acknowledgement too. So each pair is held to
// rules, and the outcome is empty:
//   1. what has come, or was asked for, since the last report is reported, within a time limit;
//   2. what is reported is what poll() says of the end, as far as it was asked for;
//   3. when nothing happens any more, nothing is reported any more;
//   4. after a report EPOLLONESHOT keeps the end quiet, whatever happens, until it is set again:
//      the step does that first, because one pair may have reported more than the other.
Outcome wait_for_edges(Pair &pair, const Model &model);

#endif
