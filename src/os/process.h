/* SPDX-License-Identifier: MIT */
/*
 * The clock, and what a process is to the system: its identity, its environment, processes that it
 * starts, and text for its user.
 */
#ifndef VIPL_OS_PROCESS_H
#define VIPL_OS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- clock ------------------------------------------------------------------------------------ */

uint64_t vipl_now_ns(void); /* monotonic */

/* --- process --------------------------------------------------------------------------------- */

int vipl_pid(void);
unsigned vipl_cpu_count(void); /* the CPUs that are online; at least 1 */
/* Runs `run` in a new process that this process does not notice: no SIGCHLD comes, and no wait()
 * finds it. The process is forked without exec, in a session of its own, with all signals blocked
 * and no descriptors but `keep` and the standard error output. */
int vipl_spawn(const char *name, void (*run)(void *), void *arg, const int *keep, unsigned count);
/* Runs a program in a new process that this process does not notice either. The program inherits
 * the descriptors `pass` and begins with all signals blocked. ENOENT, EACCES: there is no such
 * program. */
int vipl_spawn_program(char *const arguments[], char *const environment[], const int *pass, unsigned count);
/* How vipl_hidden_child() starts a process. */
struct vipl_hidden {
    /* Runs in the child between, with all signals blocked: starts the other process. Returns 0 or
     * an errno value. */
    int (*start)(void *arg, int report);
    void *arg;
    /* the other process reports 0 when it has begun; else it reports errors only */
    bool reports_success;
    bool may_stay; /* the child between may stay as the other process's parent */
};
/* Makes a child that no wait() finds. The child calls start() and ends. If the other process would
 * then become a child of this process (a subreaper), the child stays as its parent instead. Returns
 * 0 once the other process has reported 0 or, if it reports errors only, once it has not reported
 * any. ETIMEDOUT: start() has not returned. */
int vipl_hidden_child(const struct vipl_hidden *what);
/* Reports to the process that called vipl_hidden_child(). Returns false if that no longer
 * listens. */
bool vipl_hidden_report(int report, int error);
/* To be called by start(): calls run() in a new process while the caller waits. The process may
 * share the caller's memory until run() has executed a program. */
int vipl_hidden_begin(int (*run)(void *arg, int report), void *arg, int report);
/* Closes every descriptor of a process that the library made for itself. */
void vipl_close_all(void);
/* To be called by a program of the project: goes on in a child in a session of its own, whose
 * parent ends here, with no descriptors but `keep` and the standard error output. Returns 0 in that
 * child. */
int vipl_detach(const char *name, const int *keep, unsigned count);
/* To be called by a background process: sends its standard error output to /dev/null, so that a
 * program that reads the starter's output through a pipe sees the end when the starter ends. */
void vipl_silence(void);
/* Calls `handler`, as a signal handler, when the system or the user asks this program to end: at
 * SIGTERM and SIGINT, and at SIGHUP unless that is ignored. For programs of the project; the
 * library does not call it. */
void vipl_on_end(void (*handler)(void));
/* Makes writes to a pipe without readers and writes beyond a size limit fail with EPIPE and EFBIG,
 * where they would end the program. For programs of the project, too. */
void vipl_writes_fail(void);
void vipl_process_end(void);                  /* ends the process at once: no exit handler runs */
int vipl_entropy(void *bytes, size_t length); /* unpredictable bytes */
int vipl_host_name(char *name, size_t size);  /* NUL-terminated */
/* The host's name with its domain, as the resolver has it. ENOENT: the resolver has none that
 * fits. */
int vipl_host_full_name(char *name, size_t size);
const char *vipl_environment(const char *name); /* NULL: the variable is not set */
const char *vipl_environment_at(unsigned i);    /* "NAME=VALUE"; NULL: there are no more */
/* Whether this program has more rights than its user: it is set-user-ID, or the like. */
bool vipl_has_more_rights(void);
/* Writes the text of an errno value into `text`, and returns it. */
const char *vipl_os_error(int error, char *text, size_t size);
/* Called when a NIC handle is opened. `asked`: the user has asked for text on the standard error
 * output. */
void vipl_error_output_begin(bool asked);
/* Whether descriptor 2 is a standard error output, and not another file of the program. This
 * function and the next two are async-signal-safe. */
bool vipl_error_output_is_open(void);
/* Writes to descriptor 2, if that is a standard error output. */
void vipl_print_error(const char *text, size_t length);
/* Writes to a descriptor. A failed write has no effect and raises no signal. */
void vipl_write_text(int fd, const char *text, size_t length);

#endif
