/* SPDX-License-Identifier: MIT */
/*
 * Atomic access to plain fields; each function is named by the ordering that it gives. The fields
 * stay plain because they may lie in a program's descriptor or in memory that two processes share.
 * They are 32-bit words and pointers, which are lock-free and address-free on every target. A
 * comment at each use of an ordering names the access that it pairs with.
 */
#ifndef VIPL_OS_ATOMIC_H
#define VIPL_OS_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

/* Aligns a word that a thread sleeps on: the system wants a multiple of 4, and on m68k a plain word
 * may lie at a multiple of 2. */
#define VIPL_FUTEX_WORD __attribute__((aligned(4)))

/* Relaxed: orders no other access, and the value is never torn. */
static inline uint32_t vipl_load_relaxed(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}
static inline void vipl_store_relaxed(uint32_t *p, uint32_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELAXED);
}
/* Acquire: no later access moves before the load. Pairs with vipl_store_release() of the same
 * word. */
static inline uint32_t vipl_load_acquire(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
/* Release: no earlier access moves behind the store. Pairs with vipl_load_acquire() of the same
 * word, or with a program that polls a volatile member of its descriptor. */
static inline void vipl_store_release(volatile uint32_t *p, uint32_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
/* Acquire and release, for pointers. */
static inline void *vipl_load_ptr(void *const *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
static inline void vipl_store_ptr(void **p, void *v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
/* Read-modify-write operations, in one total order with the ordered stores and loads below. */
static inline uint32_t vipl_fetch_add(uint32_t *p, uint32_t v)
{
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);
}
static inline uint32_t vipl_fetch_or(uint32_t *p, uint32_t v)
{
    return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);
}
static inline uint32_t vipl_fetch_and(uint32_t *p, uint32_t v)
{
    return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST);
}
static inline uint32_t vipl_exchange(uint32_t *p, uint32_t v)
{
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
}
static inline bool vipl_compare_exchange(uint32_t *p, uint32_t expected, uint32_t v)
{
    return __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}
static inline bool vipl_compare_exchange_ptr(void **p, void *expected, void *v)
{
    return __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}
/* Sequentially consistent. Of two threads that each store their own word and then load the other
 * one's, at least one sees the other's store. */
static inline void vipl_store_ordered(uint32_t *p, uint32_t v)
{
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);
}
static inline uint32_t vipl_load_ordered(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
/* The same store, for a byte of a word whose other bytes have other writers. */
static inline void vipl_store_byte_ordered(uint8_t *p, uint8_t v)
{
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);
}

/* Orders accesses between a thread and a signal handler that interrupts it. Binds the compiler
 * only, and costs no instruction. */
static inline void vipl_signal_fence(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#endif
