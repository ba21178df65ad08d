/* SPDX-License-Identifier: MIT */
/* The list of listeners of a NIC handle, and which idle listeners are kept. */
#include "core/listener.h"

#include "core/backend_up.h"
#include "core/nic.h"

enum { MAX_IDLE = 64, MAX_IDLE_WITH_FD = 1024 };

/* A listener changes under the NIC's `listening`, and the list of listeners under both `listening`
 * and `lock`. */
struct vipl_listener {
    struct vipl_list link; /* nic->listeners, the latest used last */
    struct vipl_address local;
    uint32_t waiting; /* the calls of VipConnectWait() that wait; guarded by listening */
};

/* Finds the listener of a discriminator; NULL: none. `listening` or `lock` is held. */
static struct vipl_listener *lookup_listener(struct vipl_nic *nic, const struct vipl_address *local)
{
    for (struct vipl_list *l = nic->listeners.next; l != &nic->listeners; l = l->next) {
        struct vipl_listener *listener = VIPL_CONTAINER(l, struct vipl_listener, link);
        if (vipl_address_same_discriminator(&listener->local, local)) {
            return listener;
        }
    }
    return NULL;
}

bool vipl_up_listens(struct vipl_nic *nic, const struct vipl_address *local)
{
    vipl_mutex_lock(&nic->lock);
    bool listens = lookup_listener(nic, local) != NULL;
    vipl_mutex_unlock(&nic->lock);
    return listens;
}

static void link_listener(struct vipl_nic *nic, struct vipl_listener *listener)
{
    vipl_mutex_lock(&nic->lock);
    vipl_list_remove(&listener->link);
    vipl_list_append(&nic->listeners, &listener->link);
    vipl_mutex_unlock(&nic->lock);
}

static void unlink_listener(struct vipl_nic *nic, struct vipl_listener *listener)
{
    vipl_mutex_lock(&nic->lock);
    vipl_list_remove(&listener->link);
    vipl_mutex_unlock(&nic->lock);
}

/* Begins to listen for a discriminator. The listener is linked first, because requests may come as
 * soon as the backend listens. */
static VIP_RETURN begin_new(struct vipl_nic *nic, const struct vipl_address *local)
{
    struct vipl_listener *listener = vipl_zalloc(sizeof(*listener));
    if (listener == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    vipl_list_init(&listener->link);
    listener->local = *local;
    listener->waiting = 1;
    link_listener(nic, listener);
    VIP_RETURN rc = nic->ops->listen(nic->be, local);
    if (rc != VIP_SUCCESS) {
        unlink_listener(nic, listener);
        vipl_free(listener);
    }
    return rc;
}

VIP_RETURN vipl_listener_begin(struct vipl_nic *nic, const struct vipl_address *local)
{
    VIP_RETURN rc = VIP_SUCCESS;
    vipl_mutex_lock(&nic->listening);
    struct vipl_listener *listener = lookup_listener(nic, local);
    if (listener == NULL) {
        rc = begin_new(nic, local);
    } else if (listener->waiting++ == 0) {
        nic->listeners_idle--;
    }
    vipl_mutex_unlock(&nic->listening);
    return rc;
}

static void drop_listener(struct vipl_nic *nic, struct vipl_listener *listener)
{
    unlink_listener(nic, listener);
    nic->ops->unlisten(nic->be, &listener->local);
    vipl_free(listener);
}

static void drop_oldest_idle(struct vipl_nic *nic)
{
    struct vipl_list *l = nic->listeners.next;
    while (VIPL_CONTAINER(l, struct vipl_listener, link)->waiting > 0) {
        l = l->next;
    }
    nic->listeners_idle--;
    drop_listener(nic, VIPL_CONTAINER(l, struct vipl_listener, link));
}

static uint32_t max_idle(struct vipl_nic *nic)
{
    if (nic->listens_in_calls) {
        return 0;
    }
    vipl_mutex_lock(&nic->lock);
    uint32_t most = nic->conn_ready_fd != NULL ? MAX_IDLE_WITH_FD : MAX_IDLE;
    vipl_mutex_unlock(&nic->lock);
    return most;
}

void vipl_listener_end(struct vipl_nic *nic, const struct vipl_address *local)
{
    vipl_mutex_lock(&nic->listening);
    struct vipl_listener *listener = lookup_listener(nic, local);
    if (--listener->waiting == 0) {
        link_listener(nic, listener);
        if (++nic->listeners_idle > max_idle(nic)) {
            drop_oldest_idle(nic);
        }
    }
    vipl_mutex_unlock(&nic->listening);
}

void vipl_listeners_fini(struct vipl_nic *nic)
{
    vipl_mutex_lock(&nic->listening);
    while (!vipl_list_empty(&nic->listeners)) {
        drop_listener(nic, VIPL_CONTAINER(nic->listeners.next, struct vipl_listener, link));
    }
    nic->listeners_idle = 0;
    vipl_mutex_unlock(&nic->listening);
}
