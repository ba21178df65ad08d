/* SPDX-License-Identifier: MIT */
/*
 * A process of the library's own: a grandchild of the program's, so that the program's wait() never sees it. It runs a program of
 * its own, or is forked without exec: then it needs no file, and finds shared memory where the program has it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "os/os.h"

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

/* The numbers are few: what is kept splits them into ranges. */
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

static void begin(const char *name, const int *keep, unsigned count)
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
    for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO;
         fd++) { /* so that no other descriptor takes their place */
        if (fcntl(fd, F_GETFD) < 0) {
            open("/dev/null", O_RDWR);
        }
    }
    if (chdir("/") != 0) {
        return; /* it goes on where it is */
    }
}

/* Waits for a child that ends soon. Its exit status; 0 if another wait() of the program's had it. */
static int reap(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return 0;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
}

int vipl_spawn(const char *name, void (*run)(void *), void *arg, const int *keep, unsigned count)
{
    pid_t child = vipl_resource_fails(EAGAIN) ? -1 : fork();
    if (child < 0) {
        return errno;
    }
    if (child == 0) {
        setsid();
        pid_t grandchild = fork();
        if (grandchild != 0) {
            _exit(grandchild < 0 ? errno : 0);
        }
        begin(name, keep, count);
        run(arg);
        _exit(0);
    }
    return reap(child);
}

/* A descriptor that takes its own place is inherited, whatever its flag says. */
static int pass_all(posix_spawn_file_actions_t *actions, const int *pass, unsigned count)
{
    int error = 0;
    for (unsigned i = 0; error == 0 && i < count; i++) {
        error = posix_spawn_file_actions_adddup2(actions, pass[i], pass[i]);
    }
    return error;
}

int vipl_spawn_program(char *const arguments[], char *const environment[], const int *pass, unsigned count)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all;
    pid_t child;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return ENOMEM;
    }
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int error = vipl_resource_fails(EAGAIN) ? errno : pass_all(&actions, pass, count);
    if (error ==
        0) { /* the C library makes a process that shares this one's memory until it runs the program */
        error = posix_spawn(&child, arguments[0], &actions, &attributes, arguments, environment);
    }
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error == 0 ? reap(child) : error;
}

int vipl_detach(const char *name, const int *keep, unsigned count)
{
    setsid();
    pid_t child = fork();
    if (child > 0) {
        _exit(0);
    }
    if (child == 0) {
        begin(name, keep, count);
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

int vipl_parent(void)
{
    return (int)getppid();
}

void vipl_process_end(void)
{
    _exit(0);
}
