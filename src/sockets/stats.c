/* SPDX-License-Identifier: MIT */
/* The counts are in shared memory, made at the first connection of a process. Its pages are not in
 * a forked child, which makes its own. No lock is held. */
#include "sockets/stats.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "os/os.h"
#include "os/os_atomic.h"

struct counts {
    uint32_t pid; /* constant: of the process that counts here */
    struct vipl_shm shm;
    struct sock_stats *stats;   /* constant: in `shm`, or `unshared` */
    struct sock_stats unshared; /* if there is no shared memory */
};

static void *current; /* atomic: struct counts; of this process, or of the parent before the fork */

/* What vipl-run asks for: constant after the constructor. */
static struct {
    uint32_t started; /* the process that vipl-run has become; 0: nothing is printed */
    bool has_output;
    dev_t device; /* the standard error output that vipl-run had */
    ino_t inode;
    /* A duplicate of that, as many programs close their own at their end. Forked children have
     * none. -1: none. */
    int output;
    uint32_t generation; /* of the process that has the duplicate */
} asked = {.output = -1};

static uint32_t printed_in; /* atomic: the process that has printed */

__attribute__((constructor)) static void read_asked(void)
{
    struct stat output;
    const char *started = vipl_environment("VIPL_SOCKETS_STATS");
    asked.started = started == NULL ? 0 : (uint32_t)strtoul(started, NULL, 10);
    asked.has_output = asked.started != 0 && fstat(STDERR_FILENO, &output) == 0;
    if (asked.has_output) {
        asked.device = output.st_dev;
        asked.inode = output.st_ino;
        asked.generation = vipl_fork_generation();
        if (vipl_fd_duplicate(STDERR_FILENO, 3, &asked.output) != 0) {
            asked.output = -1;
        }
    }
}

static void begin_stats(struct sock_stats *stats, uint32_t pid)
{
    stats->pid = pid;
    memcpy(stats->program, sock_program_name(), SOCK_PROGRAM_BYTES);
    vipl_store_release(&stats->magic, SOCK_STATS_MAGIC); /* pairs with vipl-run */
}

static struct counts *make_counts(uint32_t pid)
{
    struct counts *counts = vipl_zalloc(sizeof(*counts));
    if (counts == NULL) {
        return NULL;
    }
    counts->pid = pid;
    int error = vipl_shm_create(&counts->shm, SOCK_STATS_NAME, sizeof(struct sock_stats));
    if (error != 0) {
        counts->shm.fd = -1;
        vipl_log_os(VIPL_LOG_INFO, "vipl-run --stats-of does not see this process: memory for its counts",
                    error);
    }
    counts->stats = error == 0 ? counts->shm.base : &counts->unshared;
    begin_stats(counts->stats, pid);
    return counts;
}

static void free_counts(struct counts *counts)
{
    if (counts->shm.fd >= 0) {
        vipl_shm_release(&counts->shm);
    }
    vipl_free(counts);
}

/* The counts of this process; NULL: it has none. */
static struct sock_stats *own_stats(uint32_t pid)
{
    struct counts *counts = vipl_load_ptr(&current); /* pairs with the exchange in counted_stats() */
    return counts != NULL && counts->pid == pid ? counts->stats : NULL;
}

/* The same, made if there are none yet; NULL: there is no memory. A parent's are left to the
 * parent. */
static struct sock_stats *counted_stats(void)
{
    uint32_t pid = (uint32_t)vipl_pid();
    struct counts *before = vipl_load_ptr(&current);
    if (before != NULL && before->pid == pid) {
        return before->stats;
    }
    struct counts *counts = make_counts(pid);
    if (counts != NULL && !vipl_compare_exchange_ptr(&current, before, counts)) {
        free_counts(counts);
    } else if (counts != NULL && asked.started != 0) {
        (void)atexit(sock_stats_print); /* before those handlers of the program that close its output */
    }
    return own_stats(pid);
}

static void add_one(uint32_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

void sock_stats_count(enum sock_reason reason)
{
    struct sock_stats *stats = counted_stats();
    if (stats != NULL && (unsigned)reason < SOCK_REASONS) {
        add_one(&stats->counts[reason]);
    }
}

void sock_stats_lost(void)
{
    struct sock_stats *stats = counted_stats();
    if (stats != NULL) {
        add_one(&stats->lost);
    }
}

/* Where to print; -1: nowhere. Descriptor 2 may be another file by now. */
static int output_now(void)
{
    struct stat output;
    if (asked.output >= 0 && asked.generation == vipl_fork_generation()) {
        return asked.output;
    }
    bool same = asked.has_output && fstat(STDERR_FILENO, &output) == 0 && output.st_dev == asked.device &&
                output.st_ino == asked.inode;
    return same ? STDERR_FILENO : -1;
}

void sock_stats_print(void)
{
    int fd = output_now();
    char text[SOCK_STATS_TEXT_BYTES];
    uint32_t pid = (uint32_t)vipl_pid();
    uint32_t before = vipl_load_relaxed(&printed_in);
    if (asked.started == 0 || fd < 0 || before == pid || !vipl_compare_exchange(&printed_in, before, pid)) {
        return;
    }
    struct sock_stats none = {0};
    struct sock_stats *stats = own_stats(pid);
    if (stats == NULL && asked.started != pid) {
        return; /* one of many processes that have no connections */
    }
    if (stats == NULL) {
        begin_stats(&none, pid);
        stats = &none;
    }
    vipl_write_text(fd, text, sock_stats_text(stats, text));
}

__attribute__((destructor)) static void print_at_exit(void)
{
    sock_stats_print();
}
