/* SPDX-License-Identifier: MIT */
/*
 * The process between: a child by which this process starts another one without becoming its
 * parent. The exit signal of the process between is 0: this process gets no SIGCHLD for it, and no
 * wait() finds it unless it asks for such children (__WALL, __WCLONE). A child that executes a
 * program loses that property; the process between executes none, but starts the other process and
 * ends. Where orphans become children of this process (PR_SET_CHILD_SUBREAPER, process 1 of a name
 * space), it stays as their parent instead, for as long as they or this process live.
 *
 * A process between that ends at once shares this process's memory meanwhile, and the calling
 * thread sleeps: fork() in it takes the C library's locks as fork() in that thread would, and the
 * child of that fork has consistent memory. A process between that stays has a copy of the memory,
 * in which a lock that another thread held is never unlocked: fork() in it may wait for ever. The
 * caller then ends it after a second, and refuses the report of a process that was merely slow:
 * such a process ends, because the caller starts another one in its place.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/os.h"
#include "os/os_atomic.h"

#ifdef __has_feature
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#endif
#ifdef SANITIZED /* a sanitizer keeps an account of the process's threads in the memory */
enum { SHARES_MEMORY = 0 };
#else
enum { SHARES_MEMORY = CLONE_VM | CLONE_VFORK };
#endif

enum {
    STACK_BYTES = 1 << 20, /* the whole run of a forked process happens on this stack */
    PROGRAM_BYTES = STACK_BYTES / 4,
    MAX_STAYING = 8,
    HEAR_MS = 1000,
    PARENT_ENDED = SIGUSR1
};

struct hidden {
    const struct vipl_hidden *what;
    unsigned char *stack;
    int report[2]; /* local sockets */
    pid_t program; /* the process that called vipl_hidden_child() */
    bool stays;    /* the process between stays as a parent */
};

/* atomic: the numbers of processes between that stay and are to be reaped; 0: a free entry */
static uint32_t staying[MAX_STAYING];

/* --- in the process between --- */

/* Reaps until there are no children, or the program has ended. PARENT_ENDED alone does not tell
 * that: it comes for each thread of the program that ends. */
static void stay_as_parent(const struct hidden *h)
{
    sigset_t two;
    sigemptyset(&two);
    sigaddset(&two, SIGCHLD);
    sigaddset(&two, PARENT_ENDED);
    for (;;) {
        pid_t ended = waitpid(-1, NULL, WNOHANG | __WALL);
        if ((ended < 0 && errno == ECHILD) || getppid() != h->program) {
            return;
        }
        if (ended == 0) {
            sigwaitinfo(&two, NULL);
        }
    }
}

static int run_between(void *arg)
{
    const struct hidden *h = arg;
    if (h->stays) {
        (void)signal(SIGCHLD, SIG_DFL); /* an ignored signal would not come, even blocked */
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        prctl(PR_SET_PDEATHSIG, PARENT_ENDED);
        prctl(PR_SET_NAME, "vipl-parent"); /* what ps and top show */
    }
    int error = h->what->start(h->what->arg, h->report[1]);
    if (error != 0) {
        (void)vipl_hidden_report(h->report[1], error);
    } else if (h->stays) {
        setsid();
        vipl_close_all();
        stay_as_parent(h);
    }
    return 0;
}

/* What the process that executes a program is to run. The process between waits for it. */
struct program_start {
    int (*run)(void *arg, int report);
    void *arg;
    int report;
};

static int enter_program(void *arg)
{
    const struct program_start *b = arg;
    return b->run(b->arg, b->report);
}

int vipl_hidden_begin(int (*run)(void *arg, int report), void *arg, int report)
{
    struct program_start b = {run, arg, report};
    unsigned char *stack =
        mmap(NULL, PROGRAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) {
        return errno;
    }
    int error = clone(enter_program, stack + PROGRAM_BYTES, SHARES_MEMORY | SIGCHLD, &b) < 0 ? errno : 0;
    munmap(stack, PROGRAM_BYTES);
    return error;
}

bool vipl_hidden_report(int report, int error)
{
    return write(report, &error, sizeof(error)) == (ssize_t)sizeof(error);
}

/* --- in the program --- */

static bool gets_orphans(void)
{
    int is_subreaper = 0;
    return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &is_subreaper) == 0 && is_subreaper != 0);
}

static void reap_between(pid_t pid)
{
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR) {
    }
}

/* Reaps processes between that stayed and have ended. In a forked child none of them is its own
 * child, and all entries are cleared. */
static void reap_staying(void)
{
    for (unsigned i = 0; i < MAX_STAYING; i++) {
        uint32_t pid = vipl_load_relaxed(&staying[i]);
        if (pid != 0 && waitpid((pid_t)pid, NULL, __WALL | WNOHANG) != 0) {
            vipl_compare_exchange(&staying[i], pid, 0);
        }
    }
}

static void remember_staying(pid_t pid)
{
    for (unsigned i = 0; i < MAX_STAYING; i++) {
        if (vipl_compare_exchange(&staying[i], 0, (uint32_t)pid)) {
            return;
        }
    }
}

/* Blocks all signals meanwhile: a signal handler of the program must not run in another process.
 * QEMU's emulation has no children with exit signal 0 and makes ordinary ones. */
static pid_t clone_between(struct hidden *h)
{
    int flags = h->stays ? 0 : SHARES_MEMORY;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = clone(run_between, h->stack + STACK_BYTES, flags, h);
    if (pid < 0 && errno == EINVAL) {
        pid = clone(run_between, h->stack + STACK_BYTES, flags | SIGCHLD, h);
    }
    int error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid;
}

/* Waits for the report, for a second, and then refuses one: who reports later learns that nobody
 * listens, and what was reported before that counts. Without a report, the start has succeeded if
 * only errors are reported. */
static int await_report(const struct hidden *h)
{
    uint64_t end = vipl_now_ns() + (uint64_t)HEAR_MS * 1000000;
    struct pollfd entry = {.fd = h->report[0], .events = POLLIN};
    int said;
    int none = EAGAIN;
    while (none == EAGAIN && poll(&entry, 1, HEAR_MS) <= 0) {
        if (vipl_now_ns() >= end) {
            none = ETIMEDOUT;
            (void)shutdown(h->report[0], SHUT_RD);
        }
    }
    if (read(h->report[0], &said, sizeof(said)) == (ssize_t)sizeof(said)) {
        return said;
    }
    return h->what->reports_success ? none : 0;
}

/* Whether start() has returned in a process between that stays. */
static bool has_started(pid_t between)
{
    return getsid(between) == between;
}

static int start_hidden(struct hidden *h)
{
    vipl_fd_pass_report(h->report[1]);
    pid_t pid = clone_between(h);
    int error = errno;
    vipl_fd_pass_report(-1);
    if (pid < 0) {
        return error;
    }
    vipl_fd_close(h->report[1]);
    h->report[1] = -1;
    error = await_report(h);
    if (h->stays && error == 0) {
        remember_staying(pid);
        return 0;
    }
    if (error == ETIMEDOUT && !has_started(pid)) {
        kill(pid, SIGKILL); /* else it reaps the process that it has started, which ends, and ends */
    }
    reap_between(pid);
    return error;
}

int vipl_hidden_child(const struct vipl_hidden *what)
{
    struct hidden h = {.what = what, .program = getpid(), .stays = what->may_stay && gets_orphans()};
    reap_staying();
    int error = vipl_local_pair(h.report);
    if (error != 0) {
        return error;
    }
    int cancel = vipl_cancel_off();
    h.stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    error = h.stack == MAP_FAILED ? errno : start_hidden(&h);
    if (h.stack != MAP_FAILED) {
        munmap(h.stack, STACK_BYTES);
    }
    vipl_cancel_restore(cancel);
    vipl_fd_close(h.report[0]);
    vipl_fd_close(h.report[1]);
    return error;
}
