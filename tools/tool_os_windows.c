/* SPDX-License-Identifier: MIT */
/* The operating system, where it is Windows, for the tools that are built there; see tool_os.h. */
#include "tool_os.h"

#include <errno.h>
#include <malloc.h>
#include <windows.h>

volatile sig_atomic_t tool_stop;

/* In a thread of the system's. */
static BOOL WINAPI on_stop(DWORD what)
{
    if (what != CTRL_C_EVENT && what != CTRL_BREAK_EVENT) {
        return FALSE;
    }
    tool_stop = 1;
    return TRUE;
}

void tool_catch_stop(void)
{
    (void)SetConsoleCtrlHandler(on_stop, TRUE);
}

int tool_cpus(int *cpus, int room)
{
    DWORD_PTR ours = 0;
    DWORD_PTR all = 0;
    int found = 0;

    if (!GetProcessAffinityMask(GetCurrentProcess(), &ours, &all)) {
        return 0;
    }
    for (int cpu = 0; cpu < (int)(8 * sizeof(ours)) && found < room; cpu++) {
        if ((ours >> cpu & 1) != 0) {
            cpus[found++] = cpu;
        }
    }
    return found;
}

bool tool_pin(int cpu)
{
    if (cpu < 0) {
        return true;
    }
    return cpu < (int)(8 * sizeof(DWORD_PTR)) &&
           SetThreadAffinityMask(GetCurrentThread(), (DWORD_PTR)1 << cpu) != 0;
}

void *tool_alloc(size_t length)
{
    return _aligned_malloc(length, 4096);
}

void tool_free(void *memory)
{
    _aligned_free(memory);
}

pid_t tool_fork(void)
{
    errno = ENOSYS;
    return -1;
}

void tool_end_child(pid_t child)
{
    (void)child; /* there is none */
}

int tool_wait_child(pid_t child, uint32_t timeout_ms)
{
    (void)child;
    (void)timeout_ms;
    return -1;
}
