/* SPDX-License-Identifier: MIT */
/* Waiting for a 32-bit word, and barriers in other threads. */
#ifndef VIPL_OS_WORD_H
#define VIPL_OS_WORD_H

#include <stdbool.h>
#include <stdint.h>

/* --- waiting for a 32-bit word: may return early, so callers test the word again -------------- */

void vipl_futex_wait(uint32_t *word, uint32_t while_equal);
void vipl_futex_wake_one(uint32_t *word);
void vipl_futex_wake_all(uint32_t *word);
/* Waits at most `ms` milliseconds. ETIMEDOUT: they are over; EINTR: a signal handler ran, whether
 * or not it was installed with SA_RESTART; 0: any other end. */
int vipl_futex_wait_for(uint32_t *word, uint32_t while_equal, int ms);

/* In a forked child: forgets the threads of the parent that waited. */
void vipl_futex_abandon(void);

/* --- barriers --------------------------------------------------------------------------------- */

/* Prepares this process for vipl_barrier_everywhere(), if the system has it. May be repeated;
 * os_mutex.h says who relies on it. */
void vipl_barrier_prepare(void);
/* Makes a full memory barrier in each running thread of this process: this thread then sees what
 * the other threads have stored before, and they see what this thread has stored. Returns false if
 * the system cannot. Async-signal-safe. */
bool vipl_barrier_everywhere(void);
/* Enters this process into the set of processes in which vipl_barrier_in_all() makes barriers. May
 * be repeated; a forked child has to call it again. Returns false if the system has no such set. */
bool vipl_barrier_take_part(void);
/* Makes the same barrier in all processes that take part. Returns false if the system cannot. */
bool vipl_barrier_in_all(void);

#endif
