/* SPDX-License-Identifier: MIT */
/*
 * What the tools ask of the operating system: a clock, a stop flag set by SIGINT and SIGTERM, CPUs
 * to run on, memory, a second process. tool_os.c has it for POSIX systems, and is the only file of
 * the tools with a system's name in an #ifdef; tool_os_windows.c for Windows.
 */
#ifndef VIPL_TOOL_OS_H
#define VIPL_TOOL_OS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* Nanoseconds on a monotonic clock. */
static inline uint64_t tool_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* One turn of a spin loop. */
static inline void tool_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
#endif
}

/* Set once SIGINT or SIGTERM has come. */
extern volatile sig_atomic_t tool_stop;

/* From now on SIGINT and SIGTERM set tool_stop and interrupt blocking calls; Ctrl-C and Ctrl-Break
 * on Windows set tool_stop, and interrupt nothing. */
void tool_catch_stop(void);

/* The CPUs this process may run on, at most `room` of them; returns how many were written. */
int tool_cpus(int *cpus, int room);

/* Keep the calling thread on one CPU; a negative number does nothing. */
bool tool_pin(int cpu);

/* `length` bytes at a multiple of 4096; NULL: there is no memory. */
void *tool_alloc(size_t length);
void tool_free(void *memory);

/* fork(), with output flushed first; the child is killed when its parent dies. -1 with errno:
 * ENOSYS where there is no fork(). */
pid_t tool_fork(void);

/* Have a child end as by SIGTERM. */
void tool_end_child(pid_t child);

/* Wait for a child at most `timeout_ms`, then kill it. Returns its exit code, or -1. */
int tool_wait_child(pid_t child, uint32_t timeout_ms);

/* Resident bytes of this process; 0 where the system does not say. */
double tool_resident_bytes(void);

/* Copy out of another process's memory in one system call; false where that cannot be. */
bool tool_peer_read(pid_t process, void *to, const void *from, size_t length);

#endif
