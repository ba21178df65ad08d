/* SPDX-License-Identifier: MIT */
/*
 * Starting background processes that the program does not notice (linux/hidden_child.c). Such a
 * process executes a program, or is forked without exec: it then needs no file, and has shared
 * memory at the same addresses as this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "os/os.h"

enum { ATTEMPTS = 3 };

int vipl_around_fork(void (*before)(void), void (*parent)(void), void (*child)(void))
{
    return pthread_atfork(before, parent, child);
}

static bool is_kept(int fd, const int *keep, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (keep[i] == fd) {
            return true;
        }
    }
    return fd == STDERR_FILENO;
}

/* Closes every descriptor but `keep` and the standard error output. */
static void close_others(const int *keep, unsigned count)
{
    long most = sysconf(_SC_OPEN_MAX);
    int highest = STDERR_FILENO;
    for (unsigned i = 0; i < count; i++) {
        highest = keep[i] > highest ? keep[i] : highest;
    }
    for (int fd = 0; fd <= highest; fd++) {
        if (!is_kept(fd, keep, count)) {
            close(fd);
        }
    }
#ifdef CLOSE_RANGE_CLOEXEC
    if (close_range((unsigned)highest + 1, ~0u, 0) == 0) {
        return;
    }
#endif
    for (long fd = highest + 1; fd < most && fd < 1 << 20; fd++) {
        close((int)fd);
    }
}

static void begin_background(const char *name, const int *keep, unsigned count)
{
    sigset_t all;
#ifdef __linux__
    prctl(PR_SET_NAME, name); /* what ps and top show */
#else
    (void)name;
#endif
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    close_others(keep, count);
    /* no other descriptor may get these numbers */
    for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            open("/dev/null", O_RDWR);
        }
    }
    if (chdir("/") != 0) {
        return; /* the process goes on in its folder */
    }
}

void vipl_close_all(void)
{
    close_others(NULL, 0);
    close(STDERR_FILENO);
}

/* --- a fork --- */

struct forked {
    const char *name;
    void (*run)(void *);
    void *arg;
    const int *keep;
    unsigned count;
};

/* Runs in the process between. The forked process ends at once if the caller no longer waits for
 * its report. */
static int fork_background(void *arg, int report)
{
    const struct forked *f = arg;
    pid_t pid = fork();
    if (pid != 0) {
        return pid < 0 ? errno : 0;
    }
    if (vipl_hidden_report(report, 0)) {
        setsid();
        begin_background(f->name, f->keep, f->count);
        f->run(f->arg);
    }
    _exit(0);
}

int vipl_spawn(const char *name, void (*run)(void *), void *arg, const int *keep, unsigned count)
{
    struct forked f = {name, run, arg, keep, count};
    struct vipl_hidden hidden = {fork_background, &f, true, true};
    if (vipl_resource_fails(EAGAIN)) {
        return errno;
    }
    int error = ETIMEDOUT;
    for (int i = 0; error == ETIMEDOUT && i < ATTEMPTS; i++) {
        error = vipl_hidden_child(&hidden);
    }
    hidden.may_stay = false;
    return error == ETIMEDOUT ? vipl_hidden_child(&hidden) : error;
}

/* --- a program --- */

struct program {
    char *const *arguments;
    char *const *environment;
    const int *pass;
    unsigned count;
    bool silent;
};

/* Runs in the process that is to execute the program, and makes system calls only: its memory may
 * be shared with the caller. */
static int exec_program(void *arg, int report)
{
    const struct program *p = arg;
    for (unsigned i = 0; i < p->count; i++) {
        if (fcntl(p->pass[i], F_SETFD, 0) != 0) {
            (void)vipl_hidden_report(report, errno);
            return 1;
        }
    }
    if (p->silent) {
        int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)(fd < 0 ? close(STDERR_FILENO) : dup2(fd, STDERR_FILENO));
    }
    execve(p->arguments[0], p->arguments, p->environment);
    (void)vipl_hidden_report(report, errno);
    return 1;
}

static int launch_program(void *arg, int report)
{
    return vipl_hidden_begin(exec_program, arg, report);
}

int vipl_spawn_program(char *const arguments[], char *const environment[], const int *pass, unsigned count)
{
    struct program p = {arguments, environment, pass, count, !vipl_error_output_is_open()};
    const struct vipl_hidden hidden = {launch_program, &p, false, true};
    return vipl_resource_fails(EAGAIN) ? errno : vipl_hidden_child(&hidden);
}

int vipl_detach(const char *name, const int *keep, unsigned count)
{
    setsid();
    pid_t child = fork();
    if (child > 0) {
        _exit(0);
    }
    if (child == 0) {
        begin_background(name, keep, count);
    }
    return child == 0 ? 0 : errno;
}

void vipl_silence(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd >= 0 && fd != STDERR_FILENO) {
        (void)dup2(fd, STDERR_FILENO);
        close(fd);
    }
}

void vipl_process_end(void)
{
    _exit(0);
}
