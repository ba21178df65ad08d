/* SPDX-License-Identifier: MIT */
/* The thread of a client that calls the handlers of shared objects: one after the other, in the
 * order of the server's ring. */
#include "share/client_events.h"

#include "base/config.h"
#include "base/log.h"
#include "os/os_atomic.h"
#include "share/client.h"

/* Guarded by the client's lock (vipl_share_lock()). */
static struct {
    /* atomic: the ring that the thread reads; NULL: there is no thread */
    struct vipl_event_ring *ring;
    /* the arena of the ring: a ring of an earlier server is not used again */
    struct vipl_arena *arena;
    struct vipl_thread thread; /* written before `ring` */
    int pid;                   /* the process that has the thread */
} events;

static void call_handler(const struct vipl_call_handler *event)
{
    VIP_ERROR_DESCRIPTOR error = event->error;
    switch ((enum vipl_handler_kind)event->kind) {
    case VIPL_SHARED_VI:
        event->vi_handler(event->context, event->nic, event->vi, event->descriptor);
        break;
    case VIPL_SHARED_CQ:
        event->cq_handler(event->context, event->nic, event->vi, event->recv);
        break;
    case VIPL_SHARED_ERROR:
        event->error_handler(event->context, &error);
        break;
    }
}

static void event_thread(void *arg)
{
    struct vipl_event_ring *ring = arg;
    uint32_t read = vipl_load_relaxed(&ring->read);
    for (;;) {
        uint32_t written =
            vipl_load_acquire(&ring->written); /* pairs with the server's store, after the event */
        if (written == read) {
            vipl_futex_wait(&ring->written, written);
            continue;
        }
        struct vipl_call_handler event = ring->events[read % VIPL_SHARE_EVENTS];
        if (vipl_share_holds(event.nic)) { /* otherwise this process has closed the NIC handle */
            call_handler(&event);
        }
        vipl_store_ordered(&ring->read, ++read);
        vipl_futex_wake_all(&ring->read); /* several threads may be closing NIC handles */
    }
}

/* A forked child has no thread yet. A new server needs a new thread; that of the old one sleeps for
 * ever. The client's lock is held. */
static VIP_RETURN start_locked(struct vipl_arena *arena, unsigned number)
{
    if (events.ring != NULL && events.pid == vipl_pid() && events.arena == arena) {
        return VIP_SUCCESS;
    }
    vipl_store_ptr((void **)&events.ring, NULL);
    events.pid = vipl_pid();
    events.arena = arena;
    int error = vipl_thread_start(&events.thread, event_thread, &arena->events[number]);
    if (error != 0) {
        vipl_log_os(VIPL_LOG_ERROR, "starting the thread that calls handlers", error);
        return VIP_ERROR_RESOURCE;
    }
    vipl_thread_detach(&events.thread);
    vipl_store_ptr((void **)&events.ring, &arena->events[number]);
    return VIP_SUCCESS;
}

VIP_RETURN vipl_share_events_start(void)
{
    struct vipl_arena *arena = vipl_share_arena();
    if (arena == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    if (vipl_config_word("VIPL_PROGRESS") == VIPL_PROGRESS_INLINE) {
        return VIP_ERROR_NOT_SUPPORTED;
    }
    unsigned number = vipl_share_number();
    if (number == VIPL_SHARE_CLIENTS) {
        return VIP_ERROR_RESOURCE;
    }
    vipl_share_lock();
    VIP_RETURN rc = start_locked(arena, number);
    vipl_share_unlock();
    return rc;
}

void vipl_share_events_finish(void)
{
    struct vipl_event_ring *ring = vipl_load_ptr((void *const *)&events.ring);
    if (ring == NULL || events.pid != vipl_pid() || vipl_thread_is_self(&events.thread)) {
        return;
    }
    uint32_t written = vipl_load_acquire(&ring->written);
    uint32_t read;
    while ((int32_t)((read = vipl_load_ordered(&ring->read)) - written) < 0) {
        vipl_futex_wait(&ring->read, read);
    }
}
