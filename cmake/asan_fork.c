/* SPDX-License-Identifier: MIT */
/*
 * Part of each program with AddressSanitizer, where that is gcc's before 14. Its allocator forgets
 * what every allocator has to do at a fork: a child that is forked while another thread allocates
 * finds the allocator locked for ever, and stands still at its next malloc() or free(). So whoever
 * forks takes the allocator's locks around it, as later versions do themselves. That is done by
 * functions of the runtime that only a program sees into which it is linked.
 *
 * These handlers are the first to be registered, before the constructors of libraries, which may
 * register others: these may allocate before the locks are taken and after they are given back.
 * Meanwhile no signal handler runs in the thread, for it might allocate or fork.
 */
#include <pthread.h>
#include <signal.h>

void lock_threads(void) __asm__("_ZN6__lsan18LockThreadRegistryEv");
void unlock_threads(void) __asm__("_ZN6__lsan20UnlockThreadRegistryEv");
void lock_allocator(void) __asm__("_ZN6__lsan13LockAllocatorEv");
void unlock_allocator(void) __asm__("_ZN6__lsan15UnlockAllocatorEv");
void lock_stacks(void) __asm__("_ZN11__sanitizer17StackDepotLockAllEv");
void unlock_stacks(void) __asm__("_ZN11__sanitizer19StackDepotUnlockAllEv");

static sigset_t before; /* the forking thread's mask; guarded by the locks */

static void lock(void)
{
    sigset_t all, mask;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    lock_threads();
    lock_allocator();
    lock_stacks();
    before = mask;
}

static void unlock(void)
{
    sigset_t mask = before;
    unlock_stacks();
    unlock_allocator();
    unlock_threads();
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static void lock_around_forks(void)
{
    pthread_atfork(lock, unlock, unlock);
}

__attribute__((section(".preinit_array"),
               used)) static void (*const before_constructors)(void) = lock_around_forks;
