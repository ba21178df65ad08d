/* SPDX-License-Identifier: MIT */
/*
 * Spinning: before a thread of a NIC handle that was opened with VIPX_SPIN sleeps, it polls for
 * some microseconds. How long adapts to the thread. Its limit doubles, up to VIPL_SPIN_US, when
 * what it waited for came soon, in the spin or within that time after it fell asleep, and is halved
 * when it did not; below a microsecond the thread does not spin. The thread yields its CPU every
 * few polls. If it then gets the CPU back late, more threads want to run than there are CPUs, and
 * it does not spin for a while.
 *
 * Signals are kept out of all but the first polls, and are let in once at the end, so that a
 * handler ends the wait as it ends a sleep.
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
    bool spun;
    uint64_t over; /* the time at which it was over */
};

/* Polls until what->attempt() ends the wait or the limit is over. VIP_NOT_DONE: `*why` is 0; EINTR,
 * if a signal handler ran; or ECHILD, in a child that the handler forked. With 0, descriptors of
 * the program may be ready (vipl_more_fds_are_ready). The caller has a reference on the NIC handle
 * and no lock, and has just polled. */
VIP_RETURN vipl_spin_poll(struct vipl_nic *nic, const struct vipl_wait_for *what, uint64_t deadline,
                          struct vipl_spin *spin, int *why);
/* Adapts the thread's limit: the wait has ended with `rc`, in the spin or in the sleep after it. */
void vipl_spin_learn(const struct vipl_nic *nic, const struct vipl_spin *spin, VIP_RETURN rc);

#endif
