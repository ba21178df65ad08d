/* SPDX-License-Identifier: MIT */
/*
 * Requests. A request goes to the peer's card, which knows the functions that take requests for the
 * discriminator. As long as there is none it is sent again, after pauses that grow; one that waits
 * for a program is sent again now and then, because another program may begin to wait. Receivers
 * know it by its serial number. The first acceptance counts.
 *
 * Peer-to-peer: of the two names the higher one's side sends the request, the lower one's listens.
 * Where both names are equal, both do both, and only the queue pair with the higher number accepts.
 */
#include "backends/rnic/connect.h"

#include <string.h>

#include "backends/rnic/conn.h"
#include "backends/rnic/data.h"
#include "backends/rnic/listen.h"
#include "backends/rnic/vi.h"
#include "base/deadline.h"

enum {
    FIRST_PAUSE_US = 500,
    ROUNDS = 7,        /* of doubling the pause: to 64 ms */
    PENDING_MS = 100,  /* until a request that waits for a program is sent again */
    LAST_WORD_MS = 500 /* for the first answer to a request, when its time is up */
};
static const uint64_t ns_per_ms = 1000000;

static struct rnic_nic *nic_of_op(const struct rnic_connect_op *op)
{
    return rnic_nic_of_vi(op->rv);
}

static void set_timed(struct rnic_device *device)
{
    vipl_store_relaxed(&device->timed, 1);
}

void vipl_rnic_connect_end(struct rnic_connect_op *op)
{
    if (op->listener != NULL) {
        vipl_rnic_listener_put(nic_of_op(op)->device, op->listener);
    }
    op->rv->op = NULL;
    vipl_list_remove(&op->link);
    vipl_free(op);
}

/* Ends a request that has led to no connection. */
static void fail_connect(struct rnic_connect_op *op, VIP_RETURN rc)
{
    struct rnic_vi *rv = op->rv;
    vipl_rnic_connect_end(op);
    rnic_vi_set(rv, RNIC_VI_IDLE);
    vipl_rnic_vi_stop(rv);
    vipl_up_connect_failed(rv->vi, rc);
}

/* --- sending --- */

static struct cm_discriminator discriminator_of(const struct vipl_address *address)
{
    struct cm_discriminator out = {.length = address->disc_len};
    memcpy(out.bytes, address->disc, address->disc_len);
    return out;
}

static void send_connect_request(struct rnic_connect_op *op)
{
    struct rnic_device *device = nic_of_op(op)->device;
    const struct vipl_rnic_caps *caps = vipl_rnic_query(device->rnic);
    struct cm_message message = {.kind = RNIC_CONTROL_REQUEST,
                                 .source_qp = op->rv->qp.number,
                                 .serial = op->serial,
                                 .to = discriminator_of(&op->remote),
                                 .from = discriminator_of(&op->local),
                                 .peer = op->peer,
                                 .params = op->params,
                                 .ird = (uint8_t)caps->ird,
                                 .ord = (uint8_t)caps->ord};
    op->at = vipl_now_ns() + PENDING_MS * ns_per_ms;
    op->answered = false;
    set_timed(device);
    vipl_rnic_conn_send(device, op->mac, RNIC_FUNCTION_ADAPTER, &message);
}

/* Sends a CANCEL to all listeners, and to the function that has the request, which may listen no
 * more. */
static void send_cancel(const struct rnic_connect_op *op, uint8_t reason)
{
    struct cm_message message = {.kind = RNIC_CONTROL_CANCEL,
                                 .reason = reason,
                                 .source_qp = op->rv->qp.number,
                                 .destination_qp = reason == CM_ELSEWHERE ? op->rv->peer.qp : 0,
                                 .serial = op->serial,
                                 .to = discriminator_of(&op->remote)};
    vipl_rnic_conn_send(nic_of_op(op)->device, op->mac, RNIC_FUNCTION_ADAPTER, &message);
    if (op->heard == RNIC_HEARD_PENDING && reason != CM_ELSEWHERE) {
        vipl_rnic_conn_send(nic_of_op(op)->device, op->mac, op->function, &message);
    }
}

/* --- who sends the request --- */

static void begin_requesting(struct rnic_connect_op *op)
{
    rnic_vi_set(op->rv, RNIC_VI_REQUESTING);
    send_connect_request(op);
}

static int compare(const void *a, size_t a_length, const void *b, size_t b_length)
{
    int bytes = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return bytes != 0 ? bytes : (a_length > b_length) - (a_length < b_length);
}

static int order(const struct vipl_address *a, const struct vipl_address *b)
{
    int hosts = compare(a->host, a->host_len, b->host, b->host_len);
    return hosts != 0 ? hosts : compare(a->disc, a->disc_len, b->disc, b->disc_len);
}

static VIP_RETURN begin_connect(struct rnic_connect_op *op)
{
    int by_name = op->peer ? order(&op->local, &op->remote) : 1;
    if (vipl_load_relaxed(&nic_of_op(op)->device->torn_down) != 0) {
        /* the card is dead: no event would end this request */
        return VIP_ERROR_RESOURCE;
    }
    op->tied = by_name == 0;
    if (by_name <= 0) {
        op->listener = vipl_rnic_listener_get(nic_of_op(op)->device, &op->local);
        if (op->listener == NULL) {
            return VIP_ERROR_RESOURCE;
        }
    }
    if (by_name >= 0) {
        begin_requesting(op);
    } else {
        rnic_vi_set(op->rv, RNIC_VI_WAITING);
        op->at = UINT64_MAX;
    }
    return VIP_SUCCESS;
}

void vipl_rnic_connect_again(struct rnic_connect_op *op)
{
    if (op->tied) {
        begin_requesting(op);
    } else {
        rnic_vi_set(op->rv, RNIC_VI_WAITING);
    }
}

VIP_RETURN vipl_rnic_connect(struct vipl_be_nic *be, struct vipl_vi *vi, const struct vipl_address *local,
                             const struct vipl_address *remote, enum vipl_connect_kind kind)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    struct rnic_vi *rv = rnic_vi_of(vi);
    const uint8_t *own = vipl_rnic_query(nic->rnic)->mac;
    if (remote->host_len != 6 || (memcmp(remote->host, own, 6) != 0 && !vipl_rnic_has_link(nic->rnic))) {
        return VIP_NOT_REACHABLE;
    }
    struct rnic_connect_op *op = vipl_zalloc(sizeof(*op));
    VIP_RETURN rc = op == NULL ? VIP_ERROR_RESOURCE : vipl_rnic_vi_prepare(rv);
    if (rc != VIP_SUCCESS) {
        vipl_free(op);
        return rc;
    }
    op->rv = rv;
    op->local = *local;
    op->remote = *remote;
    op->peer = kind == VIPL_CONNECT_PEER;
    op->at_once = kind == VIPL_CONNECT_AT_ONCE;
    memcpy(op->mac, remote->host, sizeof(op->mac));
    vipl_up_vi_params(vi, &op->params);
    vipl_mutex_lock(&vipl_rnic_registry.lock);
    op->serial = ++nic->device->last_serial;
    rv->op = op;
    rv->serial = op->serial;
    vipl_list_append(&nic->device->ops, &op->link);
    rc = begin_connect(op);
    if (rc != VIP_SUCCESS) {
        vipl_rnic_connect_end(op);
    }
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
    vipl_up_wake(nic->core); /* a sleeping thread learns of that time */
    return rc;
}

/* --- replies --- */

/* Notes an answer that does not end the request. The best of several answers counts. Returns false
 * if an earlier answer was better. */
static bool note_answer(struct rnic_connect_op *op, enum rnic_heard heard)
{
    bool best = !op->answered || heard >= op->heard;
    op->heard = best ? heard : op->heard;
    op->answered = true;
    return best;
}

static void try_again(struct rnic_connect_op *op, enum rnic_heard heard)
{
    uint64_t pause = (uint64_t)FIRST_PAUSE_US * 1000 << (op->round < ROUNDS ? op->round : ROUNDS);
    if (note_answer(op, heard)) {
        op->round++;
        op->at = vipl_now_ns() + pause;
        set_timed(nic_of_op(op)->device);
    }
}

/* The card knows of no function that takes the request. */
static void on_no_listener(struct rnic_connect_op *op)
{
    if (op->at_once) {
        fail_connect(op, VIP_NO_MATCH);
    } else {
        try_again(op, RNIC_HEARD_NO_MATCH);
    }
}

static void on_pending(struct rnic_connect_op *op, const struct vipl_rnic_peer *from)
{
    if (op->answered && op->heard == RNIC_HEARD_PENDING && op->function != from->function) {
        op->is_shared = true;
    }
    op->function = from->function;
    (void)note_answer(op, RNIC_HEARD_PENDING);
    op->at = vipl_now_ns() + PENDING_MS * ns_per_ms;
}

static void on_disagreement(struct rnic_connect_op *op, uint32_t code)
{
    bool valid = code == VIP_INVALID_MTU || code == VIP_INVALID_QOS || code == VIP_INVALID_RELIABILITY_LEVEL;
    fail_connect(op, valid ? (VIP_RETURN)code : VIP_REJECT);
}

static void on_reject(struct rnic_connect_op *op, const struct vipl_rnic_peer *from,
                      const struct cm_message *message)
{
    switch (message->reason) {
    case CM_PENDING:
        on_pending(op, from);
        break;
    case CM_NO_MATCH:
        try_again(op, RNIC_HEARD_NO_MATCH);
        break;
    case CM_FULL:
        try_again(op, RNIC_HEARD_BUSY);
        break;
    case CM_DISAGREES:
        on_disagreement(op, message->code);
        break;
    default:
        if (op->is_shared) {
            send_cancel(op, 0);
        }
        fail_connect(op, VIP_REJECT);
        break;
    }
}

/* A process that had been stopped may hear in one go that it was accepted and that its peer waits
 * no more. */
static void on_accept(struct rnic_connect_op *op, const struct vipl_rnic_peer *from,
                      const struct cm_message *message)
{
    op->accepted = true;
    op->acceptor = *from;
    op->acceptance = *message;
    nic_of_op(op)->device->has_accepted = true;
}

/* The peer waits for READY; the queue pair is to send from then on, and receives at once. */
static void finish_connect(struct rnic_connect_op *op)
{
    struct rnic_vi *rv = op->rv;
    struct rnic_device *device = nic_of_op(op)->device;
    const struct vipl_rnic_peer acceptor = op->acceptor, *from = &acceptor;
    const struct cm_message acceptance = op->acceptance, *message = &acceptance;
    VIP_RETURN rc = vipl_params_agree(&op->params, &message->params);
    rv->peer = *from;
    rv->serial = op->serial;
    rv->peer_gone = false;
    if (rc == VIP_SUCCESS && vipl_rnic_vi_receive(rv, message, true) != 0) {
        rc = VIP_ERROR_RESOURCE;
    }
    if (rc != VIP_SUCCESS) {
        vipl_rnic_conn_notify(device, from, RNIC_CONTROL_DISCONNECT, rv->qp.number, op->serial);
        fail_connect(op, rc);
        return;
    }
    vipl_rnic_conn_notify(device, from, RNIC_CONTROL_READY, rv->qp.number, op->serial);
    if (op->is_shared) {
        send_cancel(op, CM_ELSEWHERE);
    }
    vipl_rnic_connect_end(op);
    rnic_vi_set(rv, RNIC_VI_CONNECTED);
    if (!vipl_up_connected(rv->vi, &message->params)) {
        rnic_vi_set(rv, RNIC_VI_IDLE);
        vipl_rnic_vi_stop(rv);
        vipl_rnic_conn_notify(device, from, RNIC_CONTROL_DISCONNECT, rv->qp.number, rv->serial);
        return;
    }
    vipl_rnic_data_open(rnic_nic_of_vi(rv), rv);
}

static bool has_acceptance(const struct rnic_connect_op *op, const struct vipl_rnic_peer *from,
                           const struct cm_message *message)
{
    return op != NULL && op->accepted && op->serial == message->serial && rnic_same_peer(&op->acceptor, from);
}

bool vipl_rnic_connect_revoke(struct rnic_device *device, const struct vipl_rnic_peer *from,
                              const struct cm_message *message)
{
    struct rnic_vi *rv = rnic_vi_at(device, message->destination_qp);
    bool mine = rv != NULL && has_acceptance(rv->op, from, message);
    if (mine) {
        rv->op->accepted = false;
        on_pending(rv->op, from);
        /* it is asked for again, of all who listen: the sender has claimed the request that it
         * gives up */
        rv->op->at = 0;
        rv->serial = rv->op->serial = ++device->last_serial;
        set_timed(device);
    }
    return mine;
}

void vipl_rnic_connect_finish(struct rnic_device *device)
{
    if (!device->has_accepted) {
        return;
    }
    device->has_accepted = false;
    for (struct vipl_list *l = device->ops.next, *next = l->next; l != &device->ops;
         l = next, next = l->next) {
        struct rnic_connect_op *op = VIPL_CONTAINER(l, struct rnic_connect_op, link);
        if (op->accepted) {
            finish_connect(op);
        }
    }
}

/* The answer to a message about a request that has ended here. */
static void answer_late(struct rnic_device *device, const struct vipl_rnic_peer *from,
                        const struct cm_message *message)
{
    const struct rnic_vi *rv = rnic_vi_at(device, message->destination_qp);
    bool known = rv != NULL && rv->state == RNIC_VI_CONNECTED && rv->serial == message->serial &&
                 rnic_same_peer(&rv->peer, from);
    known = known || (rv != NULL && has_acceptance(rv->op, from, message));
    if (message->kind == RNIC_CONTROL_ACCEPT && !known) {
        vipl_rnic_conn_notify(device, from, RNIC_CONTROL_DISCONNECT, message->destination_qp,
                              message->serial);
    }
}

void vipl_rnic_connect_reply(struct rnic_device *device, const struct vipl_rnic_peer *from,
                             const struct cm_message *message)
{
    const struct rnic_vi *rv = rnic_vi_at(device, message->destination_qp);
    struct rnic_connect_op *op = rv == NULL ? NULL : rv->op;
    if (op == NULL || rv->state != RNIC_VI_REQUESTING || op->accepted || op->serial != message->serial ||
        memcmp(op->mac, from->mac, sizeof(op->mac)) != 0) {
        answer_late(device, from, message);
    } else if (message->kind == RNIC_CONTROL_ACCEPT) {
        on_accept(op, from, message);
    } else if (message->kind == RNIC_CONTROL_REJECT) {
        on_reject(op, from, message);
    } else if (message->reason == RNIC_REFUSED_NO_LISTENER) {
        on_no_listener(op);
    } else {
        try_again(op, RNIC_HEARD_BUSY);
    }
}

/* --- peer-to-peer requests of peers --- */

static bool same_discriminator(const struct vipl_address *address, const struct cm_discriminator *name)
{
    return address->disc_len == name->length && memcmp(address->disc, name->bytes, name->length) == 0;
}

static bool op_matches(const struct rnic_connect_op *op, const struct vipl_rnic_peer *from,
                       const struct cm_message *message)
{
    return op->peer && memcmp(op->mac, from->mac, sizeof(op->mac)) == 0 &&
           same_discriminator(&op->local, &message->to) && same_discriminator(&op->remote, &message->from);
}

/* The request whose VI accepts this one; NULL: none. With equal names, those that do not accept are
 * to send theirs at once. */
static struct rnic_connect_op *find_partner(struct rnic_device *device, const struct vipl_rnic_peer *from,
                                            const struct cm_message *message)
{
    for (struct vipl_list *l = device->ops.next; l != &device->ops; l = l->next) {
        struct rnic_connect_op *op = VIPL_CONTAINER(l, struct rnic_connect_op, link);
        bool asks = op->rv->state == RNIC_VI_REQUESTING && op->tied && !op->accepted;
        if ((op->rv->state != RNIC_VI_WAITING && !asks) || !op_matches(op, from, message)) {
            continue;
        }
        if (!asks || from->qp < op->rv->qp.number) {
            return op;
        }
        if (from->qp > op->rv->qp.number) {
            op->at = 0;
        }
    }
    return NULL;
}

bool vipl_rnic_connect_match(struct rnic_device *device, const struct vipl_rnic_peer *from,
                             const struct cm_message *message)
{
    struct rnic_connect_op *op = find_partner(device, from, message);
    if (op == NULL) {
        return false;
    }
    VIP_RETURN rc = vipl_params_agree(&op->params, &message->params);
    if (rc != VIP_SUCCESS) {
        vipl_rnic_conn_refuse(device, from, message->serial, CM_DISAGREES, rc);
        fail_connect(op, rc);
        return true;
    }
    if (!vipl_rnic_conn_accept(op->rv, from, message, &op->params)) {
        vipl_rnic_conn_refuse(device, from, message->serial, CM_FULL, VIP_SUCCESS);
    }
    return true;
}

/* --- timers --- */

uint64_t vipl_rnic_connect_timers(struct rnic_device *device, uint64_t now)
{
    uint64_t next = UINT64_MAX;
    for (struct vipl_list *l = device->ops.next, *after = l->next; l != &device->ops;
         l = after, after = l->next) {
        struct rnic_connect_op *op = VIPL_CONTAINER(l, struct rnic_connect_op, link);
        if (op->rv->state != RNIC_VI_REQUESTING) {
            continue;
        }
        if (op->at <= now && op->at_once && op->answered && op->heard == RNIC_HEARD_NO_MATCH) {
            send_cancel(op, 0); /* another function that the card asked may be about to answer */
            fail_connect(op, VIP_NO_MATCH);
            continue;
        }
        if (op->at <= now) {
            send_connect_request(op);
        }
        next = op->at < next ? op->at : next;
    }
    return next;
}

/* --- timeouts and cancelling --- */

/* Returns true if neither the card nor a peer has answered the request yet. */
static bool awaits_word(const struct rnic_connect_op *op)
{
    return op->rv->state == RNIC_VI_ACCEPTING ||
           (op->rv->state == RNIC_VI_REQUESTING && op->heard == RNIC_HEARD_NOTHING && !op->answered);
}

static VIP_RETURN how_far(const struct rnic_connect_op *op)
{
    if (op->heard == RNIC_HEARD_PENDING || op->heard == RNIC_HEARD_BUSY ||
        op->rv->state == RNIC_VI_ACCEPTING) {
        return VIP_TIMEOUT;
    }
    if (op->heard == RNIC_HEARD_NO_MATCH || op->rv->state == RNIC_VI_WAITING) {
        return VIP_NO_MATCH;
    }
    const uint8_t *own = vipl_rnic_query(nic_of_op(op)->rnic)->mac;
    return memcmp(op->mac, own, sizeof(op->mac)) == 0 ? VIP_TIMEOUT : VIP_NOT_REACHABLE;
}

/* Ends a request whose time is up, or at once. VIP_SUCCESS: the request has been answered. The
 * registry's lock is held. */
static VIP_RETURN abort_connect(struct rnic_vi *rv, bool at_once)
{
    vipl_rnic_conn_events(rnic_nic_of_vi(rv)->device);
    struct rnic_connect_op *op = rv->op;
    if (op == NULL) {
        return VIP_SUCCESS;
    }
    if (!at_once && awaits_word(op)) {
        return VIP_NOT_DONE;
    }
    VIP_RETURN rc = how_far(op);
    if (rv->state == RNIC_VI_REQUESTING) {
        send_cancel(op, 0);
    } else if (rv->state == RNIC_VI_ACCEPTING) {
        vipl_rnic_conn_notify(rnic_nic_of_vi(rv)->device, &rv->peer, RNIC_CONTROL_DISCONNECT, rv->qp.number,
                              rv->serial);
    }
    vipl_rnic_connect_end(op);
    rnic_vi_set(rv, RNIC_VI_IDLE);
    vipl_rnic_vi_stop(rv);
    return rc;
}

VIP_RETURN vipl_rnic_connect_cancel(struct vipl_be_nic *be, struct vipl_vi *vi, bool withdrawn)
{
    struct rnic_nic *nic = rnic_nic_of(be);
    uint64_t deadline = vipl_deadline(LAST_WORD_MS);
    uint32_t generation = vipl_fork_generation();
    VIP_RETURN rc = VIP_NOT_DONE;
    while (rc == VIP_NOT_DONE && vipl_fork_generation() == generation) {
        vipl_rnic_progress(nic->rnic);
        vipl_mutex_lock(&vipl_rnic_registry.lock);
        bool at_once = withdrawn || vipl_ms_left(deadline) == 0 || vipl_rnic_is_dead(nic->rnic);
        rc = abort_connect(rnic_vi_of(vi), at_once);
        vipl_mutex_unlock(&vipl_rnic_registry.lock);
        if (rc == VIP_NOT_DONE) {
            vipl_poll(NULL, 0, 1, NULL);
        }
    }
    /* VIP_NOT_DONE: this is a forked child, which core leaves at once */
    return rc == VIP_NOT_DONE ? VIP_TIMEOUT : rc;
}
