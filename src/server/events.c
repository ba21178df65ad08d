/* SPDX-License-Identifier: MIT */
/* Handlers that clients have registered, and the rings that tell clients to call them. */
#include "server/events.h"

#include <string.h>

#include "base/list.h"
#include "base/lock_rank.h"
#include "base/log.h"
#include "os/os_atomic.h"
#include "os/os_mutex.h"
#include "server/objects.h"
#include "share/rings.h"

/* A client's error handler on a NIC handle. */
struct listener {
    struct vipl_list link;
    unsigned client;                /* constant */
    struct vipl_call_handler event; /* the call to make; its `nic` is constant */
};

static struct {
    struct vipl_mutex lock;   /* rank SERVICE; guards writing to the rings, and the listeners */
    struct vipl_arena *arena; /* constant */
    struct vipl_list listeners;
    /* calls that have found no room since the last one that found some */
    uint32_t lost[VIPL_SHARE_CLIENTS];
} events;

void vipl_server_events_init(struct vipl_arena *arena)
{
    events.arena = arena;
    vipl_mutex_init(&events.lock, VIPL_RANK_SERVICE);
    vipl_list_init(&events.listeners);
}

static void write_locked(unsigned client, const struct vipl_call_handler *event)
{
    struct vipl_event_ring *ring = &events.arena->events[client];
    uint32_t written = vipl_load_relaxed(&ring->written);
    if (written - vipl_load_acquire(&ring->read) >= VIPL_SHARE_EVENTS) {
        if (events.lost[client]++ == 0) {
            vipl_log(VIPL_LOG_ERROR, "handlers do not keep up: some are not called");
        }
        return;
    }
    if (events.lost[client] > 0) {
        vipl_log(VIPL_LOG_ERROR, "%u calls of handlers were not made", events.lost[client]);
        events.lost[client] = 0;
    }
    ring->events[written % VIPL_SHARE_EVENTS] = *event;
    vipl_store_ordered(&ring->written, written + 1); /* pairs with the client's load */
    vipl_futex_wake_one(&ring->written);
}

void vipl_server_event(unsigned client, const struct vipl_call_handler *event)
{
    vipl_mutex_lock(&events.lock);
    write_locked(client, event);
    vipl_mutex_unlock(&events.lock);
}

/* --- errors: reported to every client with a handler on the NIC handle --- */

static void VI_CALL on_error(VIP_PVOID nic, VIP_ERROR_DESCRIPTOR *error)
{
    VIP_ERROR_DESCRIPTOR shared = *error;
    shared.NicHandle = nic;
    shared.ViHandle = vipl_server_handle_of(VIPL_KIND_VI, error->ViHandle);
    vipl_mutex_lock(&events.lock);
    for (struct vipl_list *link = events.listeners.next; link != &events.listeners; link = link->next) {
        struct listener *listener = VIPL_CONTAINER(link, struct listener, link);
        if (listener->event.nic == nic &&
            (shared.ViHandle == NULL || vipl_arena_holds(events.arena, listener->client, shared.ViHandle))) {
            listener->event.error = shared;
            write_locked(listener->client, &listener->event);
        }
    }
    vipl_mutex_unlock(&events.lock);
}

static bool has_listener_locked(const void *nic)
{
    for (struct vipl_list *link = events.listeners.next; link != &events.listeners; link = link->next) {
        if (VIPL_CONTAINER(link, struct listener, link)->event.nic == nic) {
            return true;
        }
    }
    return false;
}

/* Removes the listeners of a client, on one NIC handle or (NULL) on all. */
static void forget_listeners(unsigned client, const void *nic)
{
    struct vipl_list *next;
    vipl_mutex_lock(&events.lock);
    for (struct vipl_list *link = events.listeners.next; link != &events.listeners; link = next) {
        struct listener *listener = VIPL_CONTAINER(link, struct listener, link);
        next = link->next;
        if (listener->client == client && (nic == NULL || listener->event.nic == nic)) {
            vipl_list_remove(link);
            vipl_free(listener);
        }
    }
    vipl_mutex_unlock(&events.lock);
}

VIP_RETURN vipl_server_error_handler(unsigned client, void *real, void *nic,
                                     const struct vipl_call_handler *handler)
{
    struct listener *listener = NULL;
    if (handler->error_handler != NULL) {
        listener = vipl_zalloc(sizeof(*listener));
        if (listener == NULL) {
            return VIP_ERROR_RESOURCE;
        }
        listener->client = client;
        listener->event = *handler;
        listener->event.nic = nic;
    }
    forget_listeners(client, nic);
    vipl_mutex_lock(&events.lock);
    if (listener != NULL) {
        vipl_list_append(&events.listeners, &listener->link);
    }
    bool has_listener = has_listener_locked(nic);
    vipl_mutex_unlock(&events.lock);
    /* without a handler the library logs errors */
    return VipErrorCallback(real, nic, has_listener ? on_error : NULL);
}

/* --- completions --- */

VIP_RETURN vipl_server_notify(unsigned client, uint32_t kind, const void *object,
                              const struct vipl_call_handler *handler)
{
    struct vipl_server_notify *notify = vipl_zalloc(sizeof(*notify));
    if (notify == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    notify->client = client;
    notify->event = *handler;
    VIP_RETURN rc = vipl_server_object_notify(kind, object, handler->recv != VIP_FALSE, notify);
    if (rc != VIP_SUCCESS) {
        vipl_free(notify);
    }
    return rc;
}

/* argument of the two functions below, which run under the objects' lock */
static unsigned forgotten;

static void forget_vi(struct vipl_server_object *vi)
{
    vipl_shared_queue_forget(&vi->queues[0], forgotten);
    vipl_shared_queue_forget(&vi->queues[1], forgotten);
}

static void forget_cq(struct vipl_server_object *cq)
{
    vipl_shared_cq_forget(cq->cq, forgotten);
}

/* Called by the server's first thread only, because of `forgotten`. */
void vipl_server_forget_handlers(unsigned client)
{
    forgotten = client;
    forget_listeners(client, NULL);
    vipl_server_for_each(VIPL_KIND_VI, forget_vi);
    vipl_server_for_each(VIPL_KIND_CQ, forget_cq);
}

void vipl_server_forget_nic(const void *nic, unsigned client)
{
    forget_listeners(client, nic);
}
