/* SPDX-License-Identifier: MIT */
/* Handlers that holders have registered: they are called in the holder, of what happens in the keeper. */
#include <string.h>

#include "base/list.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "core/queue.h"
#include "core/vi.h"
#include "share/server.h"

/* A holder's error handler on a NIC handle. */
struct listener {
    struct vipl_list link;
    unsigned holder;
    struct vipl_shared_event event; /* what to call, and `nic` */
};

static struct {
    struct vipl_mutex lock; /* rank SERVICE; guards writing to the rings, and the listeners */
    struct vipl_arena *arena;
    struct vipl_list listeners;
    uint32_t lost[VIPL_SHARE_HOLDERS]; /* for which there was no room, since there last was */
} events;

void vipl_keeper_events_init(struct vipl_arena *arena)
{
    events.arena = arena;
    vipl_mutex_init(&events.lock, VIPL_RANK_SERVICE);
    vipl_list_init(&events.listeners);
}

static void write_locked(unsigned holder, const struct vipl_shared_event *event)
{
    struct vipl_event_ring *ring = &events.arena->events[holder];
    uint32_t written = vipl_load_relaxed(&ring->written);
    if (written - vipl_load_acquire(&ring->read) >= VIPL_SHARE_EVENTS) {
        if (events.lost[holder]++ == 0) {
            vipl_log(VIPL_LOG_ERROR, "handlers do not keep up: some are not called");
        }
        return;
    }
    if (events.lost[holder] > 0) {
        vipl_log(VIPL_LOG_ERROR, "%u calls of handlers were not made", events.lost[holder]);
        events.lost[holder] = 0;
    }
    ring->events[written % VIPL_SHARE_EVENTS] = *event;
    vipl_store_ordered(&ring->written, written + 1); /* pairs with the holder's load */
    vipl_futex_wake_one(&ring->written);
}

void vipl_keeper_event(unsigned holder, const struct vipl_shared_event *event)
{
    vipl_mutex_lock(&events.lock);
    write_locked(holder, event);
    vipl_mutex_unlock(&events.lock);
}

/* --- errors: to every holder that has a handler on the NIC handle --- */

static void VI_CALL on_error(VIP_PVOID nic, VIP_ERROR_DESCRIPTOR *error)
{
    VIP_ERROR_DESCRIPTOR told = *error;
    told.NicHandle = nic;
    told.ViHandle = vipl_keeper_handle_of(VIPL_KIND_VI, error->ViHandle);
    vipl_mutex_lock(&events.lock);
    for (struct vipl_list *link = events.listeners.next; link != &events.listeners; link = link->next) {
        struct listener *listener = VIPL_CONTAINER(link, struct listener, link);
        if (listener->event.nic == nic &&
            (told.ViHandle == NULL || vipl_arena_holds(events.arena, listener->holder, told.ViHandle))) {
            listener->event.error = told;
            write_locked(listener->holder, &listener->event);
        }
    }
    vipl_mutex_unlock(&events.lock);
}

static bool is_heard_locked(const void *nic)
{
    for (struct vipl_list *link = events.listeners.next; link != &events.listeners; link = link->next) {
        if (VIPL_CONTAINER(link, struct listener, link)->event.nic == nic) {
            return true;
        }
    }
    return false;
}

/* Takes away the listeners of a holder, on one NIC handle or (NULL) on all. */
static void forget_listeners(unsigned holder, const void *nic)
{
    struct vipl_list *next;
    vipl_mutex_lock(&events.lock);
    for (struct vipl_list *link = events.listeners.next; link != &events.listeners; link = next) {
        struct listener *listener = VIPL_CONTAINER(link, struct listener, link);
        next = link->next;
        if (listener->holder == holder && (nic == NULL || listener->event.nic == nic)) {
            vipl_list_remove(link);
            vipl_free(listener);
        }
    }
    vipl_mutex_unlock(&events.lock);
}

VIP_RETURN vipl_keeper_error_handler(unsigned holder, struct vipl_call *call)
{
    void *real = vipl_keeper_real(VIPL_KIND_NIC, call->nic);
    if (real == NULL) {
        return VIP_INVALID_PARAMETER;
    }
    struct listener *listener = NULL;
    if (call->event.error_handler != NULL) {
        listener = vipl_zalloc(sizeof(*listener));
        if (listener == NULL) {
            return VIP_ERROR_RESOURCE;
        }
        listener->holder = holder;
        listener->event = call->event;
        listener->event.nic = call->nic;
    }
    forget_listeners(holder, call->nic);
    vipl_mutex_lock(&events.lock);
    if (listener != NULL) {
        vipl_list_append(&events.listeners, &listener->link);
    }
    bool heard = is_heard_locked(call->nic);
    vipl_mutex_unlock(&events.lock);
    return VipErrorCallback(real, call->nic, heard ? on_error : NULL); /* else the library's own logs them */
}

/* --- completions --- */

static struct vipl_keeper_notify *new_notify(unsigned holder, const struct vipl_call *call)
{
    struct vipl_keeper_notify *notify = vipl_zalloc(sizeof(*notify));
    if (notify != NULL) {
        notify->holder = holder;
        notify->event = call->event;
    }
    return notify;
}

VIP_RETURN vipl_keeper_notify(unsigned holder, struct vipl_call *call)
{
    void *real = vipl_keeper_held(VIPL_KIND_VI, call->object, holder);
    void *nic = vipl_keeper_handle_of_nic(VIPL_KIND_VI, call->object);
    struct vipl_keeper_notify *notify = new_notify(holder, call);
    struct vipl_vi *vi = call->number != 0 ? vipl_vi_lock_recv(real) : vipl_vi_lock_send(real);
    VIP_RETURN rc = notify == NULL ? VIP_ERROR_RESOURCE : VIP_INVALID_PARAMETER;
    if (vi != NULL) {
        struct vipl_queue *q = call->number != 0 ? &vi->recv : &vi->send;
        if (notify != NULL && q->keeping != NULL) {
            rc = q->keeping->cq != NULL ? VIP_ERROR_RESOURCE : VIP_SUCCESS;
        }
        if (rc == VIP_SUCCESS) {
            notify->event.nic = nic;
            vipl_keeping_notify(q->keeping, notify);
        }
        vipl_mutex_unlock(&q->lock);
    }
    if (rc != VIP_SUCCESS) {
        vipl_free(notify);
    }
    return rc;
}

VIP_RETURN vipl_keeper_notify_cq(unsigned holder, struct vipl_call *call)
{
    struct vipl_keeper_notify *notify = new_notify(holder, call);
    if (notify == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    if (!vipl_keeper_cq_notify(call->object, notify)) {
        vipl_free(notify);
        return VIP_INVALID_PARAMETER;
    }
    return VIP_SUCCESS;
}

static unsigned forgotten; /* the holder; under the objects' lock while it is used */

static void forget_vi(struct vipl_keeper_object *vi)
{
    vipl_keeping_forget(&vi->queues[0], forgotten);
    vipl_keeping_forget(&vi->queues[1], forgotten);
}

static void forget_cq(struct vipl_keeper_object *cq)
{
    vipl_cq_keeping_forget(cq->cq, forgotten);
}

/* Called by the keeper's first thread only. */
void vipl_keeper_forget_handlers(unsigned holder)
{
    forgotten = holder;
    forget_listeners(holder, NULL);
    vipl_keeper_for_each(VIPL_KIND_VI, forget_vi);
    vipl_keeper_for_each(VIPL_KIND_CQ, forget_cq);
}

void vipl_keeper_forget_nic(const void *nic, unsigned holder)
{
    forget_listeners(holder, nic);
}
