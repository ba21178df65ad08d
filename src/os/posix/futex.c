/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a word by condition variables, of which words that have the same hash share one. The
 * words are of this process: a word in memory that processes share would need a condition variable
 * there too, so that the library is built without VIPL_SHARING, the only part that waits for such
 * words.
 *
 * The thread that changes a word and then wakes takes the mutex of the word's condition variable. A
 * thread that is about to sleep compares the word under that mutex: it sees the change, or sleeps
 * before the other thread wakes. A wake-up reaches all words of a condition variable.
 *
 * No wait ends because a signal handler has run.
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"
#include "os/os_atomic.h"

enum { BITS = 6, PLACES = 1 << BITS, NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

/* The clock of time limits: one that nobody sets, if condition variables can have that. */
#if defined(_POSIX_CLOCK_SELECTION) && _POSIX_CLOCK_SELECTION > 0
static const clockid_t limits = CLOCK_MONOTONIC;
#else
static const clockid_t limits = CLOCK_REALTIME;
#endif

static struct place {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} places[PLACES];
static pthread_once_t made = PTHREAD_ONCE_INIT; /* the places */

static void make_places(void)
{
    pthread_condattr_t how;
    pthread_condattr_init(&how);
#if defined(_POSIX_CLOCK_SELECTION) && _POSIX_CLOCK_SELECTION > 0
    pthread_condattr_setclock(&how, limits);
#endif
    for (unsigned i = 0; i < PLACES; i++) {
        pthread_mutex_init(&places[i].mutex, NULL);
        pthread_cond_init(&places[i].changed, &how);
    }
    pthread_condattr_destroy(&how);
}

static struct place *place_of(const uint32_t *word)
{
    uint64_t hash = (uint64_t)(uintptr_t)word * UINT64_C(0x9E3779B97F4A7C15);
    pthread_once(&made, make_places);
    return &places[hash >> (64 - BITS)];
}

/* The thread is not cancelled in its sleep: the library would keep a lock. `until`: NULL if there
 * is no limit. */
static int wait_until(uint32_t *word, uint32_t while_equal, const struct timespec *until)
{
    struct place *place = place_of(word);
    int error = 0;
    int saved = errno;
    int cancel = vipl_cancel_off();
    pthread_mutex_lock(&place->mutex);
    if (vipl_load_ordered(word) == while_equal) {
        error = until == NULL ? pthread_cond_wait(&place->changed, &place->mutex)
                              : pthread_cond_timedwait(&place->changed, &place->mutex, until);
    }
    pthread_mutex_unlock(&place->mutex);
    vipl_cancel_restore(cancel);
    errno = saved;
    return error == ETIMEDOUT ? ETIMEDOUT : 0;
}

static void wake(uint32_t *word)
{
    struct place *place = place_of(word);
    int saved = errno;
    pthread_mutex_lock(&place->mutex);
    pthread_cond_broadcast(&place->changed);
    pthread_mutex_unlock(&place->mutex);
    errno = saved;
}

void vipl_futex_wait(uint32_t *word, uint32_t while_equal)
{
    (void)wait_until(word, while_equal, NULL);
}

int vipl_futex_wait_for(uint32_t *word, uint32_t while_equal, int ms)
{
    struct timespec until;
    clock_gettime(limits, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * (long)NS_PER_MS;
    if (until.tv_nsec >= NS_PER_S) {
        until.tv_sec++;
        until.tv_nsec -= NS_PER_S;
    }
    return wait_until(word, while_equal, &until);
}

/* One of the threads that sleep may wait for another word. */
void vipl_futex_wake_one(uint32_t *word)
{
    wake(word);
}

void vipl_futex_wake_all(uint32_t *word)
{
    wake(word);
}

/* Other threads of the parent may have held the mutexes. */
void vipl_futex_abandon(void)
{
    make_places();
}
