/* SPDX-License-Identifier: MIT */
/*
 * Threads that are killed in their sleep. TerminateThread() of Windows ends a thread without any
 * clean-up, and the system takes the thread's stack back. Where there is such a call, a sleep by
 * vipl_poll_cancellable() is ended by another thread: that thread calls `cancelled`, whatever
 * `cancel` is. So what `cancelled` uses must not be on the stack of the thread that sleeps, unless
 * that is a thread of the library's (vipl_thread_start()), which no program kills.
 */
#ifndef VIPL_OS_KILLED_H
#define VIPL_OS_KILLED_H

enum { VIPL_SLEEP_MEMORY = 512 };

/* Memory for what a call of the calling thread needs from before its sleep to the end of
 * `cancelled`. The thread has called vipl_thread_waker() and got its waker. Returns `on_stack`
 * where no thread is killed; else VIPL_SLEEP_MEMORY bytes of this thread's own, the same for each
 * call, which are aligned as malloc() aligns. */
void *vipl_sleep_memory(void *on_stack);

#endif
