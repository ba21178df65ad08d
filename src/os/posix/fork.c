/* SPDX-License-Identifier: MIT */
/*
 * Fork: the generation of the process, and the descriptors that belong to the library. A forked
 * child closes its copies of them, each of which would keep a connection, a listening socket or a
 * segment of the parent alive after the parent's death.
 *
 * No fork handler takes a lock. A fork waits up to 100 ms for threads that are opening or closing a
 * descriptor; a fork in a signal handler that has interrupted such a thread then goes on. A
 * descriptor of the program is never closed: the library removes its mark before it closes a
 * descriptor.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "os/os.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"

enum {
    WORD_BITS = 32,
    WORDS = 32768, /* a million descriptors, the limit of a process on most systems */
    MAX_PAUSES = 100
};

static uint32_t owned[WORDS];   /* atomic: a bit for each descriptor of the library */
static uint32_t owned_words;    /* atomic: no bit is set in this word and beyond */
static uint32_t changing;       /* atomic: threads between vipl_fd_begin() and vipl_fd_end() */
static uint32_t forking;        /* atomic: threads that are about to fork */
static uint32_t generation = 1; /* atomic */
/* atomic: the process to which this state belongs; 0: not known yet */
static uint32_t known_pid;
static uint32_t watching;        /* atomic: the handlers are registered, perhaps more than once */
static void (*child_hook)(void); /* atomic */
/* before_fork() has run in this thread, and its partner has not */
static _Thread_local bool forking_here;
enum { PASSED = 3 };
/* Descriptors that a child of this thread keeps. */
static _Thread_local int passed[PASSED] = {-1, -1, -1};

static void pause_briefly(void)
{
    int saved = errno;
    poll(NULL, 0, 1);
    errno = saved;
}

/* --- the library's descriptors --- */

void vipl_fd_begin(void)
{
    vipl_fetch_add(&changing, 1); /* then reads forking; before_fork() does both in reverse */
    for (int i = 0; i < MAX_PAUSES && !forking_here && vipl_load_ordered(&forking) != 0;
         i++) { /* a fork handler itself does not wait */
        vipl_fetch_add(&changing, (uint32_t)-1);
        pause_briefly();
        vipl_fetch_add(&changing, 1);
    }
}

void vipl_fd_end(void)
{
    vipl_fetch_add(&changing, (uint32_t)-1);
}

void vipl_fd_own(int fd)
{
    uint32_t word = (uint32_t)fd / WORD_BITS;
    uint32_t most = vipl_load_relaxed(&owned_words);
    if (fd < 0 || word >= WORDS) {
        return;
    }
    while (most <= word && !vipl_compare_exchange(&owned_words, most, word + 1)) {
        most = vipl_load_relaxed(&owned_words);
    }
    vipl_fetch_or(&owned[word], UINT32_C(1) << (uint32_t)fd % WORD_BITS);
}

bool vipl_fd_is_own(int fd)
{
    uint32_t word = (uint32_t)fd / WORD_BITS;
    return fd >= 0 && word < vipl_load_relaxed(&owned_words) &&
           (vipl_load_relaxed(&owned[word]) >> (uint32_t)fd % WORD_BITS & 1) != 0;
}

void vipl_fd_disown(int fd)
{
    uint32_t word = (uint32_t)fd / WORD_BITS;
    if (fd >= 0 && word < WORDS) {
        vipl_fetch_and(&owned[word], ~(UINT32_C(1) << (uint32_t)fd % WORD_BITS));
    }
}

void vipl_fd_close(int fd)
{
    if (fd < 0) {
        return;
    }
    vipl_fd_begin();
    vipl_fd_disown(fd);
    close(fd);
    vipl_fd_end();
}

void vipl_fd_pass(int first, int second)
{
    passed[0] = first;
    passed[1] = second;
}

void vipl_fd_pass_report(int fd)
{
    passed[2] = fd;
}

static bool is_passed(int fd)
{
    return fd == passed[0] || fd == passed[1] || fd == passed[2];
}

static void close_copies(void)
{
    for (uint32_t word = 0; word < owned_words; word++) {
        for (uint32_t bit = 0; owned[word] != 0 && bit < WORD_BITS; bit++) {
            int fd = (int)(word * WORD_BITS + bit);
            if ((owned[word] >> bit & 1) != 0 && !is_passed(fd)) {
                close(fd);
            }
        }
        owned[word] = 0;
    }
    owned_words = 0;
    for (int i = 0; i < PASSED; i++) {
        vipl_fd_own(passed[i]);
    }
}

/* --- handlers --- */

static void before_fork(void)
{
    if (forking_here) {
        /* the handlers may be registered twice, by two threads that opened their first devices at
         * once */
        return;
    }
    forking_here = true;
    vipl_fetch_add(&forking, 1); /* then reads changing */
    for (int i = 0; i < MAX_PAUSES && vipl_load_ordered(&changing) != 0; i++) {
        pause_briefly();
    }
}

static void in_parent(void)
{
    if (forking_here) {
        forking_here = false;
        vipl_fetch_add(&forking, (uint32_t)-1);
    }
}

/* Resets the state of this process, which is a copy of another one: it has one thread, and none of
 * the library's objects. */
static void begin_in_child(void)
{
    void (*hook)(void) = __atomic_load_n(&child_hook, __ATOMIC_RELAXED);
    changing = forking = 0;
    known_pid = (uint32_t)getpid();
    generation++;
    vipl_rank_forget();
    vipl_alloc_abandon();
    close_copies();
    if (hook != NULL) {
        hook();
    }
}

static void in_child(void)
{
    int saved = errno;
    if (forking_here) {
        forking_here = false;
        begin_in_child();
    }
    errno = saved;
}

uint32_t vipl_fork_generation(void)
{
    return vipl_load_relaxed(&generation);
}

int vipl_fork_watch(void (*child)(void), bool handlers)
{
    uint32_t pid = (uint32_t)getpid();
    uint32_t known = vipl_load_relaxed(&known_pid);
    __atomic_store_n(&child_hook, child, __ATOMIC_RELAXED);
    if (known == 0) {
        vipl_store_relaxed(&known_pid, pid);
    } else if (known != pid) { /* this process was forked without the handlers */
        begin_in_child();
    }
    if (!handlers || vipl_load_acquire(&watching) != 0) { /* pairs with the store below */
        return 0;
    }
    int error = pthread_atfork(before_fork, in_parent, in_child);
    if (error == 0) {
        vipl_store_release(&watching, 1); /* a fork that came before leaves 0 in its child */
    }
    return error;
}
