/* SPDX-License-Identifier: MIT */
/*
 * A VI is a queue pair from its creation on; the rings come with the first posts. Between two
 * connections the queue pair goes through ERROR, where the card gives up what was posted and says
 * DRAINED, back to IDLE.
 */
#include "backends/rnic/vi.h"

#include <errno.h>

#include "backends/rnic/conn.h"
#include "backends/rnic/data.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/pool.h"

static void init_pooled_vi(void *object)
{
    struct rnic_vi *rv = object;
    vipl_rnic_data_init(rv);
}

static struct vipl_pool pool = VIPL_POOL_INIT(pool, struct rnic_vi, link, init_pooled_vi);

void vipl_rnic_vi_abandon(void)
{
    vipl_pool_abandon(&pool);
}

static int renew(struct rnic_nic *nic, struct rnic_vi *rv);

/* --- creation and destruction --- */

static uint8_t level_of(uint16_t reliability)
{
    return reliability == VIP_SERVICE_UNRELIABLE          ? RNIC_LEVEL_UNRELIABLE
           : reliability == VIP_SERVICE_RELIABLE_DELIVERY ? RNIC_LEVEL_DELIVERY
                                                          : RNIC_LEVEL_RECEPTION;
}

static struct vipl_rnic_qp_attributes attributes_of(const struct rnic_nic *nic, struct vipl_vi *vi)
{
    struct vipl_vi_params params;
    vipl_up_vi_params(vi, &params);
    struct vipl_rnic_qp_attributes attributes = {
        .pd = {.realm = nic->pd.realm, .domain = vipl_up_vi_tag(vi)},
        .level = level_of(params.reliability),
        .rights = (uint8_t)((params.rdma_write ? RNIC_RIGHT_REMOTE_WRITE : 0) |
                            (params.rdma_read ? RNIC_RIGHT_REMOTE_READ : 0)),
    };
    return attributes;
}

/* Makes the VI known to rnic_vi_at(). The registry's lock and rx are held. Returns false if there
 * is no memory. */
static bool register_vi_locked(struct rnic_device *device, struct rnic_vi *rv)
{
    void **slot = &device->vis[rv->qp.number / RNIC_QP_CHUNK];
    if (*slot == NULL) {
        void **chunk = vipl_zalloc(RNIC_QP_CHUNK * sizeof(*chunk));
        if (chunk == NULL) {
            return false;
        }
        vipl_store_ptr(slot, chunk); /* pairs with rnic_vi_at() */
    }
    void **chunk = *slot;
    vipl_store_ptr(&chunk[rv->qp.number % RNIC_QP_CHUNK], rv);
    return true;
}

static bool register_vi(struct rnic_nic *nic, struct rnic_vi *rv)
{
    vipl_mutex_lock(&vipl_rnic_registry.lock);
    vipl_mutex_lock(&nic->rx);
    bool entered = register_vi_locked(nic->device, rv);
    vipl_mutex_unlock(&nic->rx);
    if (entered) {
        vipl_list_append(&nic->vis, &rv->link);
    }
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
    return entered;
}

static void unregister_vi(struct rnic_nic *nic, struct rnic_vi *rv)
{
    void **chunk = nic->device->vis[rv->qp.number / RNIC_QP_CHUNK];
    vipl_mutex_lock(&vipl_rnic_registry.lock);
    vipl_mutex_lock(&nic->rx);
    vipl_store_ptr(&chunk[rv->qp.number % RNIC_QP_CHUNK], NULL);
    vipl_mutex_unlock(&nic->rx);
    vipl_list_remove(&rv->link);
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
}

static void reset_vi(struct rnic_vi *rv, struct rnic_nic *nic, struct vipl_vi *vi)
{
    rv->vi = vi;
    rv->state = RNIC_VI_IDLE;
    vipl_list_init(&rv->accepting);
    rv->op = NULL;
    rv->peer_gone = rv->ending = rv->held = false;
    vipl_store_relaxed(&rv->active, 0);
    vipl_store_relaxed(&rv->open, 0);
    vipl_store_relaxed(&rv->broken, 0);
    vipl_store_relaxed(&rv->drained, 0);
    vipl_list_init(&rv->link);
    vipl_store_ptr(&rv->nic, nic);
}

/* Creates a queue pair, and doubles the completion queue if that has no room for one more. */
static int create_qp(struct rnic_nic *nic, const struct vipl_rnic_qp_attributes *attributes,
                     struct vipl_rnic_qp *out)
{
    vipl_mutex_lock(&nic->rx);
    int error = vipl_rnic_create_qp(nic->rnic, nic->cq, attributes, out);
    while (error == ENOBUFS) {
        while (vipl_rnic_data_complete(nic)) { /* so that the previous ring can be freed */
        }
        error = vipl_rnic_grow_cq(nic->cq);
        error = error == 0 ? vipl_rnic_create_qp(nic->rnic, nic->cq, attributes, out) : error;
    }
    vipl_mutex_unlock(&nic->rx);
    return error;
}

VIP_RETURN vipl_rnic_vi_create(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    struct rnic_vi *rv = vipl_pool_get(&pool);
    if (rv == NULL) {
        return VIP_ERROR_RESOURCE;
    }
    struct vipl_rnic_qp_attributes attributes = {
        .pd = {.realm = nic->pd.realm}}; /* the VI's own domain is set when the VI connects */
    int error = create_qp(nic, &attributes, &rv->qp);
    if (error != 0) {
        vipl_pool_put(&pool, rv);
        return VIP_ERROR_RESOURCE;
    }
    reset_vi(rv, nic, vi);
    if (!register_vi(nic, rv)) {
        (void)vipl_rnic_destroy_qp(&rv->qp);
        vipl_store_ptr(&rv->nic, NULL);
        vipl_pool_put(&pool, rv);
        return VIP_ERROR_RESOURCE;
    }
    ((struct rnic_vi_area *)vipl_vi_area(vi))->rv = rv;
    return VIP_SUCCESS;
}

void vipl_rnic_vi_destroy(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    struct rnic_vi *rv = rnic_vi_of(vi);
    vipl_rnic_data_forget(nic, rv);
    if (vipl_load_relaxed(&rv->active) !=
        0) { /* of a failed connection attempt: the last completion is taken */
        (void)renew(nic, rv);
    }
    unregister_vi(nic, rv);
    int error = vipl_rnic_destroy_qp(&rv->qp);
    if (error != 0 && error != ENODEV) {
        vipl_log_os(VIPL_LOG_ERROR, "rnic: ending a queue pair", error);
    }
    vipl_store_ptr(&rv->nic, NULL);
    vipl_pool_put(&pool, rv);
}

/* --- from one connection to the next --- */

/* Takes completions until the last one of this queue pair, DRAINED, is taken. Returns false if it
 * does not come. */
static bool drain(struct rnic_nic *nic, struct rnic_vi *rv)
{
    struct vipl_rnic_wait wait = {0};
    do {
        vipl_mutex_lock(&nic->rx);
        (void)vipl_rnic_data_complete(nic);
        vipl_mutex_unlock(&nic->rx);
        if (vipl_load_relaxed(&rv->drained) != 0) {
            return true;
        }
    } while (vipl_rnic_wait_on(nic->rnic, &wait));
    return false;
}

/* An orderly end: work that was posted before is sent, if the connection still exists. */
static void close_qp(struct rnic_nic *nic, struct rnic_vi *rv)
{
    if (vipl_load_relaxed(&rv->active) != 0 && vipl_load_relaxed(&rv->broken) == 0 &&
        vipl_load_relaxed(&rv->drained) == 0 &&
        vipl_rnic_modify_qp(&rv->qp, RNIC_QP_STATE_CLOSING, NULL) == 0) {
        (void)drain(nic, rv);
    }
}

static bool has_posts(const struct rnic_vi *rv)
{
    const struct vipl_rnic_queue *queues = rv->qp.queues;
    return queues[VIPL_RNIC_SQ].producer != queues[VIPL_RNIC_SQ].consumer ||
           queues[VIPL_RNIC_RQ].producer != queues[VIPL_RNIC_RQ].consumer;
}

/* Takes the queue pair back to IDLE, with empty queues. Only the registry's lock may be held. */
static int renew(struct rnic_nic *nic, struct rnic_vi *rv)
{
    int error = 0;
    vipl_rnic_data_shut(rv);
    if (vipl_load_relaxed(&rv->active) != 0 || has_posts(rv)) {
        error = vipl_rnic_modify_qp(&rv->qp, RNIC_QP_STATE_ERROR, NULL);
        if (error == 0 && !drain(nic, rv)) {
            vipl_rnic_fail(nic->rnic, "a queue pair does not end");
            error = ENODEV;
        }
        if (error == 0) {
            vipl_mutex_lock(&nic->rx);
            error = vipl_rnic_renew_qp(&rv->qp);
            vipl_mutex_unlock(&nic->rx);
        }
    }
    if (error == 0) {
        vipl_store_relaxed(&rv->active, 0);
        vipl_store_relaxed(&rv->broken, 0);
        vipl_store_relaxed(&rv->drained, 0);
    }
    return error;
}

static void set_ending(struct rnic_vi *rv, bool ending)
{
    vipl_mutex_lock(&vipl_rnic_registry.lock);
    /* all events of this connection are handled now, so that the next connection sees none of
     * them */
    if (!ending) {
        vipl_rnic_conn_events(rnic_nic_of_vi(rv)->device);
    }
    rv->ending = ending;
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
}

void vipl_rnic_vi_quiesce(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    struct rnic_vi *rv = rnic_vi_of(vi);
    uint32_t generation = vipl_fork_generation();
    set_ending(rv, true);
    close_qp(nic, rv);
    (void)renew(nic, rv); /* a card that fails here is dead, and makes no more DMA */
    if (vipl_fork_generation() == generation) {
        set_ending(rv, false);
    }
}

void vipl_rnic_vi_revoke(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    (void)be;
    (void)vi; /* quiesce does it */
}

VIP_RETURN vipl_rnic_vi_prepare(struct rnic_vi *rv)
{
    struct rnic_nic *nic = rnic_nic_of_vi(rv);
    struct vipl_rnic_qp_attributes attributes = attributes_of(nic, rv->vi);
    int error = vipl_load_relaxed(&rv->active) != 0 ? renew(nic, rv)
                                                    /* of a failed connection attempt */
                                                    : 0;
    error = error != 0 ? error : vipl_rnic_set_qp(&rv->qp, &attributes);
    return error == 0 ? VIP_SUCCESS : VIP_ERROR_RESOURCE;
}

/* --- connecting --- */

static uint8_t min_u8(unsigned a, unsigned b)
{
    return (uint8_t)(a < b ? a : b);
}

int vipl_rnic_vi_receive(struct rnic_vi *rv, const struct cm_message *peer, bool sending)
{
    const struct vipl_rnic_caps *caps = vipl_rnic_query(rnic_nic_of_vi(rv)->rnic);
    struct vipl_rnic_qp_connection connection = {
        .peer = rv->peer,
        .ird = min_u8(caps->ird, peer->ord),
        .ord = min_u8(caps->ord, peer->ird),
    };
    vipl_store_relaxed(&rv->active, 1);
    vipl_store_relaxed(&rv->broken, 0); /* may be set by a previous attempt */
    /* again: receives that were posted for a previous attempt are still held back */
    vipl_rnic_data_hold(rv);
    int error =
        vipl_rnic_modify_qp(&rv->qp, sending ? RNIC_QP_STATE_CONNECTED : RNIC_QP_STATE_RECEIVE, &connection);
    if (error != 0) {
        vipl_store_relaxed(&rv->active, 0);
    }
    return error;
}

void vipl_rnic_vi_stop(struct rnic_vi *rv)
{
    vipl_store_relaxed(&rv->broken, 1);
    if (vipl_load_relaxed(&rv->active) != 0) {
        /* a card that fails here is dead */
        (void)vipl_rnic_modify_qp(&rv->qp, RNIC_QP_STATE_ERROR, NULL);
    }
}

void vipl_rnic_vi_restart(struct rnic_vi *rv)
{
    if (renew(rnic_nic_of_vi(rv), rv) != 0) {
        vipl_rnic_vi_stop(rv);
    }
}
