/* SPDX-License-Identifier: MIT */
/*
 * Threads, and the waker that each waiting thread has until it ends. There are neither signals nor
 * cancellation. The library stays loaded after FreeLibrary(), because its threads may be running,
 * and the system calls it back when a thread ends.
 */
#include <errno.h>
#include <process.h>

#include "os/os_atomic.h"
#include "os/windows/descriptor.h"

BOOLEAN NTAPI RtlDllShutdownInProgress(void); /* which no header of mingw-w64 declares */

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

/* --- wakers, one per thread, closed when the thread ends --- */

static void *waker_slot; /* atomic: of fiber-local storage, counted from 1; NULL: not made yet */

/* While the process ends, the other threads are gone, and one of them may have had a lock. */
static void WINAPI end_waker_of_thread(void *p)
{
    if (p != NULL && !RtlDllShutdownInProgress()) {
        vipl_waker_close(p);
        vipl_free(p);
    }
}

static DWORD get_waker_slot(void)
{
    void *known = vipl_load_ptr(&waker_slot);
    if (known == NULL) {
        DWORD made = FlsAlloc(end_waker_of_thread);
        void *mine = (void *)((uintptr_t)made + 1);
        if (made != FLS_OUT_OF_INDEXES && !vipl_compare_exchange_ptr(&waker_slot, NULL, mine)) {
            (void)FlsFree(made); /* another thread made it */
        }
        known = vipl_load_ptr(&waker_slot);
    }
    return known == NULL ? FLS_OUT_OF_INDEXES : (DWORD)((uintptr_t)known - 1);
}

struct vipl_waker *vipl_thread_waker(void)
{
    DWORD slot = get_waker_slot();
    struct vipl_waker *waker = slot == FLS_OUT_OF_INDEXES ? NULL : FlsGetValue(slot);
    if (waker != NULL || slot == FLS_OUT_OF_INDEXES) {
        return waker;
    }
    waker = vipl_alloc(sizeof(*waker));
    if (waker == NULL) {
        return NULL;
    }
    if (vipl_waker_open(waker) != 0) {
        vipl_free(waker);
        return NULL;
    }
    if (!FlsSetValue(slot, waker)) {
        end_waker_of_thread(waker);
        return NULL;
    }
    return waker;
}
