/* SPDX-License-Identifier: MIT */
/* Threads, their cancellation and their signals. */
#ifndef VIPL_OS_THREAD_H
#define VIPL_OS_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/* --- threads: signals are blocked in them ----------------------------------------------------- */

/* Marks a thread-local variable whose access costs one instruction, and no allocation at first
 * use. */
#ifdef __GNUC__
#define VIPL_FAST_THREAD_LOCAL __attribute__((tls_model("initial-exec")))
#else
#define VIPL_FAST_THREAD_LOCAL
#endif

/* Disables cancellation of the calling thread, which would keep a lock of the library if it were
 * cancelled while it holds one. Returns what vipl_cancel_restore() takes. Both are
 * async-signal-safe. */
int vipl_cancel_off(void);
void vipl_cancel_restore(int before);

struct vipl_thread {
    uintptr_t id;
};
int vipl_thread_start(struct vipl_thread *thread, void (*run)(void *), void *arg);
void vipl_thread_join(struct vipl_thread *thread);
void vipl_thread_detach(struct vipl_thread *thread);
/* The thread ends at its next cancellation point. */
void vipl_thread_cancel(struct vipl_thread *thread);
bool vipl_thread_is_self(const struct vipl_thread *thread);
/* Whether this process certainly has one thread. Leaves errno as it is. */
bool vipl_is_only_thread(void);
/* Lets another thread run on this CPU, if one wants to. */
void vipl_yield(void);
/* Keeps signals out of the calling thread, except those that an instruction of its own raises,
 * until vipl_signals_let_in(), in which the handlers of pending ones run. `before` can be given to
 * vipl_poll() as its mask. */
struct vipl_signals {
    uint64_t set[16]; /* a sigset_t */
};
void vipl_signals_keep_out(struct vipl_signals *before);
void vipl_signals_let_in(const struct vipl_signals *before);

#endif
