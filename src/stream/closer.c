/* SPDX-License-Identifier: MIT */
/*
 * Streams that are looked after although their program may make no call: those that it has closed
 * and whose peers have yet to take what was sent; those that neither send nor receive any more,
 * whose peers are to be reset if they send; and those with bytes that wait for more to follow. Each
 * call that makes progress on their device looks at the first two kinds too. There is a thread that
 * looks at all, at first after 100 ms and then less and less often, and that sleeps for good while
 * no stream needs it.
 */
#include <errno.h>

#include "base/deadline.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "stream/endpoint.h"
#include "stream/nic.h"

enum {
    FIRST_LOOK_MS = 100,
    LAST_LOOK_MS = 999, /* vipl_pause() takes less than a second */
    DRAIN_MS = 20       /* of one device, before another one is looked at */
};

static struct {
    struct vipl_mutex lock;    /* rank STREAM_CLOSER */
    struct vipl_list attended; /* vipl_stream.attended_link; guarded by lock */
    bool has_thread;           /* guarded by lock */
    /* atomic: of streams in `attended`; written under lock. The thread sleeps on it. */
    VIPL_FUTEX_WORD uint32_t count;
    uint32_t lingering; /* atomic: those of them that are closed; written under lock */
    /* atomic: of the process that `attended` belongs to; BUSY while a thread of a forked child
     * makes it its own. Pairs with itself in own_list(). */
    uint32_t generation;
} closer;
enum { BUSY = UINT32_MAX };

/* In a forked child, the streams of the list are the parent's. */
static void own_list(void)
{
    uint32_t mine = vipl_fork_generation();
    uint32_t before = vipl_load_acquire(&closer.generation);
    while (before != mine) {
        if (before != BUSY && vipl_compare_exchange(&closer.generation, before, BUSY)) {
            vipl_mutex_init(&closer.lock, VIPL_RANK_STREAM_CLOSER);
            vipl_list_init(&closer.attended);
            closer.has_thread = false;
            vipl_store_relaxed(&closer.count, 0);
            vipl_store_relaxed(&closer.lingering, 0);
            vipl_store_release(&closer.generation, mine);
        }
        before = vipl_load_acquire(&closer.generation);
    }
}

/* Returns the first stream of the list, which goes to the end of the list, with a user; NULL: there
 * is none. *overdue: its peer has had all the time that it gets. */
static struct vipl_stream *hold_first(uint64_t now, bool *overdue)
{
    const uint64_t most = VIPL_STREAM_LINGER_S * UINT64_C(1000000000);
    vipl_mutex_lock(&closer.lock);
    struct vipl_list *link = vipl_list_take(&closer.attended);
    struct vipl_stream *stream = NULL;
    if (link != NULL) {
        stream = VIPL_CONTAINER(link, struct vipl_stream, attended_link);
        vipl_list_append(&closer.attended, link);
        vipl_stream_hold(stream);
        *overdue = stream->attended == VIPL_STREAM_LINGERING && now > stream->lingers_since + most;
    }
    vipl_mutex_unlock(&closer.lock);
    return stream;
}

/* What waits for more has waited long enough. A stream that holds bytes again and again is in the
 * list from one look to the next: entering it each time would wake the thread each time. */
static void push_held(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->lock);
    vipl_stream_push_locked(stream);
    stream->held_lately = stream->held > 0;
    vipl_stream_attend_locked(stream);
    vipl_mutex_unlock(&stream->lock);
}

static bool lingers(struct vipl_stream *stream)
{
    vipl_mutex_lock(&stream->lock);
    bool result = stream->attended == VIPL_STREAM_LINGERING;
    vipl_mutex_unlock(&stream->lock);
    return result;
}

/* Makes progress on the first stream, or ends it if it is overdue. */
static void progress_first(uint64_t now)
{
    bool overdue = false;
    struct vipl_stream *stream = hold_first(now, &overdue);
    if (stream == NULL) {
        return;
    }
    vipl_stream_progress(stream);
    push_held(stream);
    if (overdue && lingers(stream)) {
        vipl_log(VIPL_LOG_ERROR,
                 "a closed stream is reset: its peer has not taken what was sent for %d seconds",
                 VIPL_STREAM_LINGER_S);
        vipl_stream_abort(stream);
        vipl_stream_progress(stream);
    }
    vipl_stream_put(stream);
}

void vipl_stream_look_after(uint64_t now)
{
    own_list();
    for (uint32_t left = vipl_load_relaxed(&closer.count); left > 0; left--) {
        progress_first(now);
    }
}

static void run(void *unused)
{
    const uint64_t ns_per_ms = 1000000;
    (void)unused;
    for (;;) {
        unsigned ms = FIRST_LOOK_MS;
        vipl_futex_wait(&closer.count, 0);
        while (vipl_load_acquire(&closer.count) > 0) {
            vipl_pause(ms * ns_per_ms);
            vipl_stream_look_after(vipl_now_ns());
            ms = ms * 2 < LAST_LOOK_MS ? ms * 2 : LAST_LOOK_MS;
        }
    }
}

static void need_thread_locked(void)
{
    struct vipl_thread thread;
    if (!closer.has_thread) {
        int error = vipl_thread_start(&thread, run, NULL);
        closer.has_thread = error == 0;
        if (error == 0) {
            vipl_thread_detach(&thread);
        } else {
            char text[128];
            vipl_log(VIPL_LOG_ERROR, "no thread looks after closed streams: %s",
                     vipl_os_error(error, text, sizeof(text)));
        }
    }
}

/* Why a stream is to be looked after now. */
static enum vipl_stream_attended reason_locked(const struct vipl_stream *stream)
{
    if (!stream->begun || stream->lost || vipl_stream_is_aborted(stream) || stream->over) {
        return VIPL_STREAM_UNATTENDED;
    }
    if (stream->state.closing) {
        return VIPL_STREAM_LINGERING;
    }
    return stream->stopped && stream->state.finishing ? VIPL_STREAM_DEAF
           : stream->held_lately                      ? VIPL_STREAM_HOLDING
                                                      : VIPL_STREAM_UNATTENDED;
}

/* Enters a stream into the list, or removes it; the lock is held. Returns true if the thread may
 * sleep and has to wake up. */
static bool change_list_locked(struct vipl_stream *stream, enum vipl_stream_attended why)
{
    bool was_in = stream->attended != VIPL_STREAM_UNATTENDED;
    bool is_in = why != VIPL_STREAM_UNATTENDED;
    uint32_t count = vipl_load_relaxed(&closer.count) + (is_in ? 1 : 0) - (was_in ? 1 : 0);
    uint32_t lingering = vipl_load_relaxed(&closer.lingering) + (why == VIPL_STREAM_LINGERING ? 1 : 0) -
                         (stream->attended == VIPL_STREAM_LINGERING ? 1 : 0);
    if (!is_in) {
        vipl_list_remove(&stream->attended_link);
    } else if (!was_in) {
        vipl_list_append(&closer.attended, &stream->attended_link);
        need_thread_locked();
    }
    if (why == VIPL_STREAM_LINGERING) {
        stream->lingers_since = vipl_now_ns();
    }
    stream->attended = why;
    vipl_store_release(&closer.count, count);         /* pairs with run() */
    vipl_store_release(&closer.lingering, lingering); /* pairs with vipl_stream_drain() */
    return is_in && !was_in && count == 1;
}

void vipl_stream_attend_locked(struct vipl_stream *stream)
{
    enum vipl_stream_attended why = reason_locked(stream);
    if (why == stream->attended) {
        return;
    }
    own_list();
    vipl_mutex_lock(&closer.lock);
    bool wakes = change_list_locked(stream, why);
    vipl_mutex_unlock(&closer.lock);
    if (wakes) {
        vipl_futex_wake_one(&closer.count);
    }
}

/* Sleeps until something has come for the device of the first stream, or for DRAIN_MS:
 * others may have another device. A thread that may not wait there, as in a signal handler,
 * pauses. */
static void await_first(int ms)
{
    bool overdue = false;
    struct vipl_stream *stream = hold_first(0, &overdue);
    int rc = EINVAL;
    if (stream != NULL) {
        rc = vipl_stream_nic_wait(stream->nic, NULL, 0, ms < DRAIN_MS ? ms : DRAIN_MS, NULL);
        vipl_stream_put(stream);
    }
    if (rc == EINVAL) {
        vipl_pause(1000000);
    }
}

bool vipl_stream_drain(int ms)
{
    uint64_t deadline = vipl_deadline((VIP_ULONG)ms);
    vipl_stream_look_after(vipl_now_ns());
    while (vipl_load_acquire(&closer.lingering) > 0 && vipl_ms_left(deadline) > 0) {
        await_first(vipl_ms_left(deadline));
        vipl_stream_look_after(vipl_now_ns());
    }
    return vipl_load_acquire(&closer.lingering) == 0; /* pairs with change_list_locked() */
}
