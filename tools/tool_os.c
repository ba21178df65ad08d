/* SPDX-License-Identifier: MIT */
/*
 * The operating system; see tool_os.h. Where a system has no affinity, no parent-death signal or no
 * reading of another process's memory, the function says so by its result and the tool goes on.
 */
#include "tool_os.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sched.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#endif

volatile sig_atomic_t tool_stop;

static void on_stop(int number)
{
    (void)number;
    tool_stop = 1;
}

void tool_catch_stop(void)
{
    struct sigaction action = {0};

    action.sa_handler = on_stop;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

#ifdef __linux__
int tool_cpus(int *cpus, int room)
{
    cpu_set_t set;
    int found = 0;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return 0;
    }
    for (size_t cpu = 0; cpu < CPU_SETSIZE && found < room; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            cpus[found++] = (int)cpu;
        }
    }
    return found;
}

bool tool_pin(int cpu)
{
    cpu_set_t set;

    if (cpu < 0) {
        return true;
    }
    if (cpu >= CPU_SETSIZE) {
        return false;
    }
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

static void die_with_parent(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) { /* it died before the line above */
        _exit(1);
    }
}

bool tool_peer_read(pid_t process, void *to, const void *from, size_t length)
{
    struct iovec local = {to, length};
    struct iovec remote = {(void *)(uintptr_t)from, length};

    return process_vm_readv(process, &local, 1, &remote, 1, 0) == (ssize_t)length;
}
#else
int tool_cpus(int *cpus, int room)
{
    (void)cpus;
    (void)room;
    return 0;
}

bool tool_pin(int cpu)
{
    return cpu < 0;
}

static void die_with_parent(pid_t parent)
{
    (void)parent;
}

bool tool_peer_read(pid_t process, void *to, const void *from, size_t length)
{
    (void)process;
    (void)to;
    (void)from;
    (void)length;
    return false;
}
#endif

void *tool_alloc(size_t length)
{
    void *memory = NULL;

    return posix_memalign(&memory, 4096, length) == 0 ? memory : NULL;
}

void tool_free(void *memory)
{
    free(memory);
}

void tool_end_child(pid_t child)
{
    kill(child, SIGTERM);
}

pid_t tool_fork(void)
{
    pid_t parent = getpid();
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        die_with_parent(parent);
    }
    return child;
}

static void pause_ms(long milliseconds)
{
    struct timespec pause = {0, milliseconds * 1000000};

    nanosleep(&pause, NULL);
}

int tool_wait_child(pid_t child, uint32_t timeout_ms)
{
    uint64_t deadline = tool_now_ns() + (uint64_t)timeout_ms * 1000000;
    int status = 0;
    pid_t ended;

    while ((ended = waitpid(child, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        if (tool_now_ns() > deadline) {
            kill(child, SIGKILL);
            deadline = UINT64_MAX;
        }
        pause_ms(1);
    }
    return ended == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

double tool_resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL) {
        return 0;
    }
    if (fscanf(file, "%*s %lu", &pages) != 1) {
        pages = 0;
    }
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}
