/* SPDX-License-Identifier: MIT */
/*
 * Threads. There are neither signals nor cancellation. The library stays loaded after
 * FreeLibrary(), because its threads may be running, and the system calls it back when a thread
 * ends (sleeper.c).
 */
#include <errno.h>
#include <process.h>

#include "os/os_atomic.h"
#include "os/windows/sleeper.h"

/* Runs when the library is loaded. */
__attribute__((constructor)) static void stay_loaded(void)
{
    HMODULE self;
    (void)GetModuleHandleExA(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                             (const char *)(uintptr_t)stay_loaded, &self);
}

struct start {
    void (*run)(void *);
    void *arg;
};

static unsigned __stdcall run_thread(void *p)
{
    struct start start = *(struct start *)p;
    vipl_free(p);
    vipl_sleeper_is_ours();
    start.run(start.arg);
    return 0;
}

int vipl_thread_start(struct vipl_thread *thread, void (*run)(void *), void *arg)
{
    struct start *start = vipl_alloc(sizeof(*start));
    if (start == NULL) {
        return ENOMEM;
    }
    *start = (struct start){run, arg};
    thread->id = vipl_resource_fails(EAGAIN) ? 0 : _beginthreadex(NULL, 0, run_thread, start, 0, NULL);
    if (thread->id == 0) {
        vipl_free(start);
        return EAGAIN;
    }
    return 0;
}

void vipl_thread_join(struct vipl_thread *thread)
{
    (void)WaitForSingleObject((HANDLE)thread->id, INFINITE);
    (void)CloseHandle((HANDLE)thread->id);
}

void vipl_thread_detach(struct vipl_thread *thread)
{
    (void)CloseHandle((HANDLE)thread->id);
}

void vipl_thread_cancel(struct vipl_thread *thread)
{
    (void)thread;
}

bool vipl_thread_is_self(const struct vipl_thread *thread)
{
    return GetThreadId((HANDLE)thread->id) == GetCurrentThreadId();
}

void vipl_yield(void)
{
    (void)SwitchToThread();
}

int vipl_cancel_off(void)
{
    return 0;
}

void vipl_cancel_restore(int before)
{
    (void)before;
}

void vipl_signals_keep_out(struct vipl_signals *before)
{
    (void)before;
}

void vipl_signals_let_in(const struct vipl_signals *before)
{
    (void)before;
}
