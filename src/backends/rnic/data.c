/* SPDX-License-Identifier: MIT */
/*
 * Posts, completions, and room for more. A post runs under a queue lock of its VI, where nothing
 * may wait for the card. When it finds no room the VI goes on a list, and the posting thread makes
 * the room at the end of its call (base/deferred.h); so when a call that posts returns, the card
 * has the post, unless memory is short. Meanwhile the card lets messages wait for receives that are
 * held back.
 *
 * So are those that are posted before core knows that the VI is connected: a message that comes
 * earlier would be complete on a VI that is not connected yet.
 */
#include "backends/rnic/data.h"

#include <errno.h>

#include "base/list.h"

enum {
    BATCH = 16,
    MAX_BATCHES = 16 /* in one call */
};

/* rnic_vi.deferred */
enum { NOT_DEFERRED, DEFERRED, DEFERRED_AGAIN };

/* --- the list of VIs whose posts found no room --- */

static void set_wanting(struct rnic_nic *nic, struct rnic_vi *rv)
{
    vipl_mutex_lock(&nic->wanting_lock);
    if (vipl_list_empty(&rv->wanting)) {
        vipl_list_append(&nic->wanting, &rv->wanting);
        vipl_store_relaxed(&nic->has_wanting, 1);
    }
    vipl_mutex_unlock(&nic->wanting_lock);
}

static struct rnic_vi *take_wanting(struct rnic_nic *nic)
{
    vipl_mutex_lock(&nic->wanting_lock);
    struct vipl_list *link = vipl_list_take(&nic->wanting);
    if (link == NULL) {
        vipl_store_relaxed(&nic->has_wanting, 0);
    }
    vipl_mutex_unlock(&nic->wanting_lock);
    return link == NULL ? NULL : VIPL_CONTAINER(link, struct rnic_vi, wanting);
}

/* The thread makes the room where it holds no lock; if another one is about to do that already, it
 * does it once more. */
static void defer_growth(struct rnic_vi *rv)
{
    uint32_t state;
    do {
        state = vipl_load_relaxed(&rv->deferred);
        if (state == NOT_DEFERRED && vipl_compare_exchange(&rv->deferred, NOT_DEFERRED, DEFERRED)) {
            vipl_defer(&rv->grow);
            return;
        }
    } while (state == NOT_DEFERRED ||
             (state == DEFERRED && !vipl_compare_exchange(&rv->deferred, DEFERRED, DEFERRED_AGAIN)));
}

/* The VI stays until `deferred` is NOT_DEFERRED, and its NIC handle with it:
 * vipl_rnic_data_forget() waits for that. */
static void run_growth(struct vipl_deferred *work)
{
    struct rnic_vi *rv = VIPL_CONTAINER(work, struct rnic_vi, grow);
    struct rnic_nic *nic = rnic_nic_of_vi(rv);
    do {
        vipl_compare_exchange(&rv->deferred, DEFERRED_AGAIN, DEFERRED);
        vipl_mutex_lock(&nic->rx);
        vipl_rnic_data_make_room(nic);
        vipl_mutex_unlock(&nic->rx);
    } while (!vipl_compare_exchange(&rv->deferred, DEFERRED, NOT_DEFERRED));
    vipl_futex_wake_all(&rv->deferred);
}

void vipl_rnic_data_init(struct rnic_vi *rv)
{
    rv->grow.run = run_growth;
    vipl_list_init(&rv->wanting);
}

void vipl_rnic_data_forget(struct rnic_nic *nic, struct rnic_vi *rv)
{
    uint32_t state;
    while ((state = vipl_load_ordered(&rv->deferred)) != NOT_DEFERRED) {
        vipl_futex_wait(&rv->deferred, state);
    }
    /* now no thread that has taken the VI off the list makes room for it */
    vipl_mutex_lock(&nic->rx);
    vipl_mutex_lock(&nic->wanting_lock);
    vipl_list_remove(&rv->wanting);
    vipl_mutex_unlock(&nic->wanting_lock);
    vipl_mutex_unlock(&nic->rx);
}

/* --- posting: under a queue lock of the VI --- */

static enum vipl_posted posted(struct rnic_vi *rv, int error)
{
    if (error == 0) {
        return VIPL_POSTED_PENDING;
    }
    set_wanting(rnic_nic_of_vi(rv), rv);
    defer_growth(rv);
    return VIPL_POSTED_AGAIN;
}

static uint8_t opcode_of(uint16_t op)
{
    return op == VIP_CONTROL_OP_RDMAWRITE  ? RNIC_WORK_WRITE
           : op == VIP_CONTROL_OP_RDMAREAD ? RNIC_WORK_READ
                                           : RNIC_WORK_SEND;
}

enum vipl_posted vipl_rnic_data_send(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_send *send)
{
    struct rnic_vi *rv = rnic_vi_of(vi);
    struct vipl_rnic_work work = {.opcode = opcode_of(send->op),
                                  .flags = send->immediate ? RNIC_WORK_FLAG_IMMEDIATE : 0,
                                  .cookie = send->sequence,
                                  .immediate = send->immediate ? send->immediate_data : 0,
                                  .segments = (uint16_t)send->local.count,
                                  .pieces = send->local.iov,
                                  .stags = send->handles};
    (void)be;
    if (work.opcode != RNIC_WORK_SEND) {
        work.remote_address = send->remote_address;
        work.remote_stag = send->remote_handle;
    }
    return posted(rv, vipl_rnic_post_sq(&rv->qp, &work));
}

/* The receive lock is held. */
static void begin_hold(struct rnic_vi *rv)
{
    if (!rv->held) {
        rv->held = true;
        vipl_rnic_hold_rq(&rv->qp, true);
    }
}

enum vipl_posted vipl_rnic_data_recv(struct vipl_be_nic *be, struct vipl_vi *vi, struct vipl_recv *recv)
{
    struct rnic_vi *rv = rnic_vi_of(vi);
    struct vipl_rnic_work work = {.opcode = RNIC_WORK_RECEIVE,
                                  .flags = recv->invalid ? RNIC_WORK_FLAG_INVALID : 0,
                                  .cookie = recv->sequence,
                                  .segments = (uint16_t)recv->local.count,
                                  .pieces = recv->local.iov,
                                  .stags = recv->handles};
    (void)be;
    enum vipl_posted outcome = VIPL_POSTED_AGAIN;
    if (vipl_load_relaxed(&rv->open) != 0) {
        outcome = posted(rv, vipl_rnic_post_rq(&rv->qp, &work));
    }
    if (outcome == VIPL_POSTED_AGAIN) {
        begin_hold(rv);
    }
    return outcome;
}

void vipl_rnic_data_hold(struct rnic_vi *rv)
{
    vipl_up_recv_lock(rv->vi);
    begin_hold(rv);
    vipl_up_recv_unlock(rv->vi);
}

/* --- room --- */

/* Called when the last receive that was held back has been handed to the card. */
static void end_hold(struct rnic_vi *rv)
{
    vipl_up_recv_lock(rv->vi);
    if (rv->held && vipl_load_relaxed(&rv->open) != 0 &&
        vipl_load_relaxed(&rv->qp.queues[VIPL_RNIC_RQ].wants) == 0) {
        rv->held = false;
        vipl_rnic_hold_rq(&rv->qp, false);
    }
    vipl_up_recv_unlock(rv->vi);
}

/* Returns false if room has to be made later. */
static bool make_room_for(struct rnic_vi *rv)
{
    bool sends = vipl_load_relaxed(&rv->qp.queues[VIPL_RNIC_SQ].wants) != 0;
    bool receives = vipl_load_relaxed(&rv->qp.queues[VIPL_RNIC_RQ].wants) != 0;
    int send_error = sends ? vipl_rnic_grow_queue(&rv->qp, VIPL_RNIC_SQ) : 0;
    int recv_error = receives ? vipl_rnic_grow_queue(&rv->qp, VIPL_RNIC_RQ) : 0;
    if (sends && send_error == 0) {
        vipl_up_send_resume(rv->vi);
    }
    if (receives && recv_error == 0) {
        vipl_up_recv_resume(rv->vi);
        end_hold(rv);
    }
    return send_error == 0 && recv_error == 0;
}

/* A VI whose posts resume may want room again, and is then put on the list again. */
void vipl_rnic_data_make_room(struct rnic_nic *nic)
{
    struct vipl_list later;
    struct rnic_vi *rv;
    vipl_list_init(&later);
    while (vipl_load_relaxed(&nic->has_wanting) != 0 && (rv = take_wanting(nic)) != NULL) {
        if (!make_room_for(rv)) {
            vipl_mutex_lock(&nic->wanting_lock);
            vipl_list_remove(&rv->wanting);
            vipl_list_append(&later, &rv->wanting);
            vipl_mutex_unlock(&nic->wanting_lock);
        }
    }
    struct vipl_list *link;
    vipl_mutex_lock(&nic->wanting_lock);
    while ((link = vipl_list_take(&later)) != NULL) {
        vipl_list_append(&nic->wanting, link);
        vipl_store_relaxed(&nic->has_wanting, 1);
    }
    vipl_mutex_unlock(&nic->wanting_lock);
}

void vipl_rnic_data_open(struct rnic_nic *nic, struct rnic_vi *rv)
{
    vipl_store_relaxed(&rv->open,
                       /* before the loop: a receive that is posted meanwhile is handed over here or
                        * by its post */
                       1);
    vipl_up_recv_resume(rv->vi);
    vipl_mutex_lock(&nic->rx);
    vipl_rnic_data_make_room(nic);
    vipl_mutex_unlock(&nic->rx);
    end_hold(rv);
}

void vipl_rnic_data_shut(struct rnic_vi *rv)
{
    vipl_up_recv_lock(rv->vi);
    vipl_store_relaxed(&rv->open, 0);
    if (rv->held) {
        rv->held = false;
        vipl_rnic_hold_rq(&rv->qp, false);
    }
    vipl_up_recv_unlock(rv->vi);
}

/* --- completions --- */

static uint32_t vip_status(uint16_t status)
{
    switch (status) {
    case RNIC_STATUS_OK:
        return 0;
    case RNIC_STATUS_LOCAL_PROTECTION:
        return VIP_STATUS_PROTECTION_ERROR;
    case RNIC_STATUS_LOCAL_LENGTH:
        return VIP_STATUS_LENGTH_ERROR;
    case RNIC_STATUS_LOCAL_FORMAT:
        return VIP_STATUS_FORMAT_ERROR;
    case RNIC_STATUS_REMOTE_ACCESS:
        return VIP_STATUS_RDMA_PROT_ERROR;
    case RNIC_STATUS_REMOTE_RECEIVE:
        return VIP_STATUS_REMOTE_DESC_ERROR;
    default:
        return VIP_STATUS_TRANSPORT_ERROR;
    }
}

static void report(struct rnic_vi *rv, const struct vipl_rnic_completion *c)
{
    uint32_t status = vip_status(c->status);
    if (c->opcode != RNIC_WORK_RECEIVE) {
        vipl_up_send_done(rv->vi, c->cookie, status, c->length);
        return;
    }
    vipl_up_recv_done(rv->vi, c->cookie, status, c->length, (c->flags & RNIC_CQE_FLAG_RDMA) != 0,
                      (c->flags & RNIC_CQE_FLAG_IMMEDIATE) != 0 ? &c->immediate : NULL);
}

/* Reports a completion. A completion that names no VI of this NIC handle is ignored. */
static void take_completion(struct rnic_nic *nic, const struct vipl_rnic_completion *c)
{
    struct rnic_vi *rv = rnic_vi_at(nic->device, c->qp);
    if (rv == NULL || rnic_nic_of_vi(rv) != nic) {
        return;
    }
    if (c->opcode == RNIC_WORK_DRAINED) {
        vipl_store_relaxed(&rv->drained, 1);
    } else if (vipl_rnic_retire(&rv->qp, c)) {
        report(rv, c);
    }
}

bool vipl_rnic_data_complete(struct rnic_nic *nic)
{
    struct vipl_rnic_completion batch[BATCH];
    unsigned count = BATCH;
    for (unsigned i = 0; i < MAX_BATCHES && count == BATCH; i++) {
        count = vipl_rnic_poll_cq(nic->cq, batch, BATCH);
        for (unsigned j = 0; j < count; j++) {
            take_completion(nic, &batch[j]);
        }
        nic->silent_since = count > 0 ? 0 : nic->silent_since;
    }
    return count == BATCH;
}
