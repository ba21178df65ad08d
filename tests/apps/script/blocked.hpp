// SPDX-License-Identifier: MIT
// A call that waits, in a thread of its own, and what ends its waiting.
#ifndef VIPL_TEST_SCRIPT_BLOCKED_HPP
#define VIPL_TEST_SCRIPT_BLOCKED_HPP

#include "calls.hpp"

enum { kWaitRecv, kWaitRecvAll, kWaitPoll, kWaitSelect, kWaitEpoll, kWaitSend, kWaits };

// Of a step's option. kWakeRestart: a signal whose handler has SA_RESTART; a receive then goes on
// and is sent something, and the others end.
enum { kWakeSend, kWakeEnd, kWakeAbort, kWakeOwnShutdown, kWakeSignal, kWakeRestart, kWakes };

// `step.how` waits, `step.option` ends it; `step.size` bytes are received, or sent by kWaitSend.
Outcome blocked(const Step &step, Pair &pair, const Model &model);

// Whether a send to the waiting end is a part of the step.
bool sends_to_waiter(const Step &step);

#endif
