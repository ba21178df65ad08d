/* SPDX-License-Identifier: MIT */
/* The sleepers: one for each thread, or fiber, that has slept, until that ends or is killed. */
#include "os/windows/sleeper.h"

#include <errno.h>

#include "os/os_atomic.h"
#include "os/windows/pollset.h"

BOOLEAN NTAPI RtlDllShutdownInProgress(void); /* which no header of mingw-w64 declares */

static _Thread_local bool is_ours;
static void *slot; /* atomic: of fiber-local storage, counted from 1; NULL: not made yet */

void vipl_sleeper_is_ours(void)
{
    is_ours = true;
}

void vipl_sleeper_hang_on(struct vipl_sleeper *sleeper, const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct vipl_object *object = vipl_object_at(fds[i]);
        struct vipl_sleep *sleep = &sleeper->sleeps[i];
        *sleep = (struct vipl_sleep){.sleeper = sleeper, .object = object};
        if (object != NULL) {
            vipl_fetch_add(&object->references, 1);
            sleep->next = object->sleeps;
            object->sleeps = sleep;
        }
    }
    sleeper->count = count;
    sleeper->woken = false;
}

static void take_off_locked(struct vipl_sleep *sleep)
{
    struct vipl_sleep **at = sleep->object == NULL ? NULL : &sleep->object->sleeps;
    while (at != NULL && *at != sleep) {
        at = &(*at)->next;
    }
    if (at != NULL) {
        *at = sleep->next;
    }
}

void vipl_sleeper_take_off(struct vipl_sleeper *sleeper)
{
    AcquireSRWLockExclusive(&vipl_objects);
    for (unsigned i = 0; i < sleeper->count; i++) {
        take_off_locked(&sleeper->sleeps[i]);
    }
    ReleaseSRWLockExclusive(&vipl_objects);
    for (unsigned i = 0; i < sleeper->count; i++) {
        vipl_object_put(sleeper->sleeps[i].object);
    }
    sleeper->count = 0;
}

void vipl_sleeps_end(struct vipl_object *object)
{
    for (struct vipl_sleep *sleep = object->sleeps; sleep != NULL; sleep = sleep->next) {
        if (!sleep->sleeper->woken) {
            sleep->sleeper->woken = true;
            (void)SetEvent(sleep->sleeper->event);
        }
    }
}

static void close_if_open(HANDLE handle)
{
    if (handle != NULL) {
        (void)CloseHandle(handle);
    }
}

static void end_sleeper(struct vipl_sleeper *sleeper)
{
    if (sleeper->waker.fd >= 0) {
        vipl_waker_close(&sleeper->waker);
    }
    if (sleeper->watch != NULL) {
        SetThreadpoolWait(sleeper->watch, NULL, NULL); /* before the thread's handle is closed */
        CloseThreadpoolWait(sleeper->watch);
    }
    close_if_open(sleeper->thread);
    close_if_open(sleeper->event);
    vipl_free(sleeper);
}

/* The thread has ended, and end_of_thread() has not run: the thread was killed. If it was awake, it
 * may have been anywhere in the library, and what it had stays as it is. */
static void CALLBACK on_end(TP_CALLBACK_INSTANCE *call, void *p, TP_WAIT *watch, TP_WAIT_RESULT result)
{
    struct vipl_sleeper *sleeper = p;
    (void)call;
    (void)watch;
    (void)result;
    if (vipl_load_acquire(&sleeper->asleep) == 0) {
        return;
    }
    vipl_sleeper_take_off(sleeper);
    if (sleeper->cancelled != NULL) {
        sleeper->cancelled(sleeper->arg);
        end_sleeper(sleeper);
    }
}

/* While the process ends, the other threads are gone, and one of them may have had a lock. */
static void WINAPI end_of_thread(void *p)
{
    if (p != NULL && !RtlDllShutdownInProgress()) {
        end_sleeper(p);
    }
}

static DWORD get_slot(void)
{
    void *known = vipl_load_ptr(&slot);
    if (known == NULL) {
        DWORD made = FlsAlloc(end_of_thread);
        void *mine = (void *)((uintptr_t)made + 1);
        if (made != FLS_OUT_OF_INDEXES && !vipl_compare_exchange_ptr(&slot, NULL, mine)) {
            (void)FlsFree(made); /* another thread made it */
        }
        known = vipl_load_ptr(&slot);
    }
    return known == NULL ? FLS_OUT_OF_INDEXES : (DWORD)((uintptr_t)known - 1);
}

/* Has on_end() called for the calling thread, unless that is one of the library's. */
static bool watch_this_thread(struct vipl_sleeper *sleeper)
{
    HANDLE process = GetCurrentProcess();
    HANDLE thread;
    if (is_ours) {
        sleeper->thread_id = GetCurrentThreadId();
        return true;
    }
    if (!DuplicateHandle(process, GetCurrentThread(), process, &thread, SYNCHRONIZE, FALSE, 0)) {
        return false;
    }
    SetThreadpoolWait(sleeper->watch, NULL, NULL);
    WaitForThreadpoolWaitCallbacks(sleeper->watch, TRUE);
    close_if_open(sleeper->thread);
    sleeper->thread = thread;
    sleeper->thread_id = GetCurrentThreadId();
    SetThreadpoolWait(sleeper->watch, thread, NULL);
    return true;
}

static bool open_handles(struct vipl_sleeper *sleeper)
{
    if (vipl_resource_fails(EMFILE)) {
        return false;
    }
    sleeper->event = CreateEventA(NULL, FALSE, FALSE, NULL);
    sleeper->watch = CreateThreadpoolWait(on_end, sleeper, NULL);
    return sleeper->event != NULL && sleeper->watch != NULL && watch_this_thread(sleeper);
}

static struct vipl_sleeper *make_sleeper(DWORD at)
{
    struct vipl_sleeper *sleeper = vipl_zalloc(sizeof(*sleeper));
    if (sleeper == NULL) {
        return NULL;
    }
    sleeper->waker.fd = -1;
    if (!open_handles(sleeper) || !FlsSetValue(at, sleeper)) {
        end_sleeper(sleeper);
        return NULL;
    }
    return sleeper;
}

struct vipl_sleeper *vipl_sleeper_get(void)
{
    DWORD at = get_slot();
    struct vipl_sleeper *sleeper = at == FLS_OUT_OF_INDEXES ? NULL : FlsGetValue(at);
    if (sleeper != NULL) {
        bool moved = sleeper->thread_id != GetCurrentThreadId();
        return moved && !watch_this_thread(sleeper) ? NULL : sleeper;
    }
    return at == FLS_OUT_OF_INDEXES ? NULL : make_sleeper(at);
}

struct vipl_waker *vipl_thread_waker(void)
{
    struct vipl_sleeper *sleeper = vipl_sleeper_get();
    if (sleeper != NULL && sleeper->waker.fd < 0 && vipl_waker_open(&sleeper->waker) != 0) {
        sleeper->waker.fd = -1;
        return NULL;
    }
    return sleeper == NULL ? NULL : &sleeper->waker;
}

void *vipl_sleep_memory(void *on_stack)
{
    (void)on_stack; /* which the system takes back from a thread that is killed */
    return vipl_sleeper_get()->memory.bytes;
}
