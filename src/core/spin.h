/* SPDX-License-Identifier: MIT */
/*
 * Spinning: before a thread of a NIC handle that was opened with VIPX_SPIN sleeps, it polls for
 * some microseconds, VIPL_SPIN_US at most. A spin never costs much more than it saves, because each
 * thread has a budget of time that it may lose by spinning:
 *
 * - A spin that ends the wait adds what a sleep would have cost.
 * - A spin that is followed by a sleep takes its own time away.
 * - The time that passes adds a small share of itself. Of a long wait only the beginning counts, so
 *   a thread whose waits are long uses next to no CPU.
 *
 * The thread spins for twice as long as its short waits usually take, and only if its budget is
 * large enough for that. Now and then a spin begins with a yield. If the thread gets its CPU back
 * late, twice in succession, other threads want to run there, and what the thread saves would be
 * taken from them. The thread then owes a time slice, and sleeps at once until the share has paid
 * for it.
 *
 * Signals are kept out of a spin after its first microseconds. They are let in at the end, and
 * every few microseconds if there are descriptors of the program to be looked at, so that a handler
 * ends the wait as it ends a sleep.
 */
#ifndef VIPL_CORE_SPIN_H
#define VIPL_CORE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "vipl/vipl.h"

struct vipl_nic;
struct vipl_wait_for;

/* One wait that may spin. */
struct vipl_spin {
    uint64_t begun; /* the time at which the wait began */
    uint64_t took;  /* nanoseconds of polling */
    bool spun;
};

/* Polls until what->attempt() ends the wait, or a descriptor of the program is ready
 * (vipl_more_fds_are_ready), or the spin is over. VIP_NOT_DONE: `*why` is 0; EINTR, if a signal
 * handler ran; or ECHILD, in a child that the handler forked. The caller has a reference on the NIC
 * handle and no lock, and has just polled. */
VIP_RETURN vipl_spin_poll(struct vipl_nic *nic, const struct vipl_wait_for *what, uint64_t deadline,
                          struct vipl_spin *spin, int *why);
/* The thread learns from a wait that has ended with `rc`. `slept`: not in the spin. */
void vipl_spin_learn(const struct vipl_nic *nic, const struct vipl_spin *spin, VIP_RETURN rc, bool slept);

#endif
