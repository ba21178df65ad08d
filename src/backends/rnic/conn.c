/* SPDX-License-Identifier: MIT */
/*
 * Connections after a request has been accepted: ACCEPT, READY, errors of the queue pair,
 * DISCONNECT. A message counts only if it comes from the peer's card and function and names both
 * queue pairs and the serial number of the request. Any other message belongs to a request or
 * connection that has ended. If its sender would wait for ever, or believe that it is connected, it
 * is sent a CANCEL or DISCONNECT.
 */
#include "backends/rnic/conn.h"

#include <errno.h>
#include <string.h>

#include "backends/rnic/connect.h"
#include "backends/rnic/data.h"
#include "backends/rnic/listen.h"
#include "backends/rnic/vi.h"
#include "base/log.h"

enum { DISCONNECT_MS = 50 /* between two attempts to send a pending DISCONNECT */ };
static const uint64_t ns_per_ms = 1000000;

/* A DISCONNECT that is still to be sent, because the peer's card takes no message now. */
struct rnic_pending_disconnect {
    struct vipl_list link; /* device->pending_disconnects */
    struct vipl_rnic_peer peer;
    uint32_t source_qp;
    uint32_t serial;
};

/* --- sending --- */

static int send_cm(struct rnic_device *device, const uint8_t mac[6], uint16_t function,
                   const struct cm_message *message)
{
    uint8_t bytes[CM_MAX_BYTES];
    size_t length = vipl_rnic_cm_write(message, bytes);
    int error = vipl_rnic_send_control(device->rnic, mac, function, bytes, length);
    vipl_log(VIPL_LOG_DEBUG,
             "rnic: queue pair %u sends message %u.%u to function %u, queue pair %u, serial %u: %d",
             (unsigned)message->source_qp, (unsigned)message->kind, (unsigned)message->reason,
             (unsigned)function, (unsigned)message->destination_qp, (unsigned)message->serial, error);
    return error;
}

void vipl_rnic_conn_send(struct rnic_device *device, const uint8_t mac[6], uint16_t function,
                         const struct cm_message *message)
{
    (void)send_cm(device, mac, function, message);
}

void vipl_rnic_conn_notify(struct rnic_device *device, const struct vipl_rnic_peer *peer, uint8_t kind,
                           uint32_t source_qp, uint32_t serial)
{
    struct cm_message message = {
        .kind = kind, .source_qp = source_qp, .destination_qp = peer->qp, .serial = serial};
    vipl_rnic_conn_send(device, peer->mac, peer->function, &message);
}

void vipl_rnic_conn_refuse(struct rnic_device *device, const struct vipl_rnic_peer *peer, uint32_t serial,
                           uint8_t reason, VIP_RETURN code)
{
    struct cm_message message = {.kind = RNIC_CONTROL_REJECT,
                                 .reason = reason,
                                 .destination_qp = peer->qp,
                                 .serial = serial,
                                 .code = (uint32_t)code};
    vipl_rnic_conn_send(device, peer->mac, peer->function, &message);
}

/* --- accepting --- */

bool vipl_rnic_conn_accept(struct rnic_vi *rv, const struct vipl_rnic_peer *peer,
                           const struct cm_message *request, const struct vipl_vi_params *own)
{
    struct rnic_nic *nic = rnic_nic_of_vi(rv);
    const struct vipl_rnic_caps *caps = vipl_rnic_query(nic->rnic);
    struct cm_message accept = {.kind = RNIC_CONTROL_ACCEPT,
                                .source_qp = rv->qp.number,
                                .destination_qp = peer->qp,
                                .serial = request->serial,
                                .params = *own,
                                .ird = (uint8_t)caps->ird,
                                .ord = (uint8_t)caps->ord};
    rv->peer = *peer;
    rv->serial = request->serial;
    rv->peer_params = request->params;
    rv->peer_gone = rv->was_connected = false;
    /* before the ACCEPT: the peer may send as soon as it has received that */
    if (vipl_rnic_vi_receive(rv, request, false) != 0) {
        return false;
    }
    rnic_vi_set(rv, RNIC_VI_ACCEPTING);
    vipl_rnic_conn_send(nic->device, peer->mac, peer->function, &accept);
    return true;
}

void vipl_rnic_conn_give_up(struct rnic_vi *rv)
{
    if (rv->op != NULL) { /* peer-to-peer: the peer may send another request */
        vipl_rnic_vi_restart(rv);
        vipl_rnic_connect_again(rv->op);
        return;
    }
    rnic_vi_set(rv, RNIC_VI_IDLE);
    vipl_rnic_vi_stop(rv);
    vipl_up_connect_failed(rv->vi, VIP_TIMEOUT); /* wakes the thread in conn_accept */
}

struct rnic_vi *vipl_rnic_conn_accepting(struct rnic_device *device, const struct vipl_rnic_peer *peer,
                                         uint32_t serial)
{
    for (struct vipl_list *l = device->accepting.next; l != &device->accepting; l = l->next) {
        struct rnic_vi *rv = VIPL_CONTAINER(l, struct rnic_vi, accepting);
        if (rv->serial == serial && rnic_same_peer(&rv->peer, peer)) {
            return rv;
        }
    }
    return NULL;
}

/* --- control messages of peers --- */

static struct vipl_rnic_peer sender_of(const struct vipl_rnic_event *event, const struct cm_message *message)
{
    struct vipl_rnic_peer peer = {.function = event->function, .qp = message->source_qp};
    memcpy(peer.mac, event->mac, sizeof(peer.mac));
    return peer;
}

/* Returns the VI that the message is for, if its state is `a` or `b`; otherwise NULL. */
static struct rnic_vi *find_addressee(struct rnic_device *device, const struct vipl_rnic_peer *from,
                                      const struct cm_message *message, enum rnic_vi_state a,
                                      enum rnic_vi_state b)
{
    struct rnic_vi *rv = rnic_vi_at(device, message->destination_qp);
    bool fits = rv != NULL && (rv->state == a || rv->state == b) && rv->serial == message->serial &&
                rnic_same_peer(&rv->peer, from);
    return fits ? rv : NULL;
}

static void on_ready(struct rnic_device *device, const struct vipl_rnic_peer *from,
                     const struct cm_message *message)
{
    struct rnic_vi *rv = find_addressee(device, from, message, RNIC_VI_ACCEPTING, RNIC_VI_ACCEPTING);
    if (rv == NULL) {
        if (find_addressee(device, from, message, RNIC_VI_CONNECTED, RNIC_VI_CONNECTED) == NULL) {
            vipl_rnic_conn_notify(device, from, RNIC_CONTROL_DISCONNECT, message->destination_qp,
                                  message->serial);
        }
        return;
    }
    (void)vipl_rnic_modify_qp(&rv->qp, RNIC_QP_STATE_CONNECTED,
                              /* an error means that the connection has failed already; an event
                               * follows */
                              NULL);
    if (rv->op != NULL) {
        vipl_rnic_connect_end(rv->op);
    }
    rnic_vi_set(rv, RNIC_VI_CONNECTED);
    rv->was_connected = true;
    if (!vipl_up_connected(rv->vi, &rv->peer_params)) {
        rnic_vi_set(rv, RNIC_VI_IDLE);
        vipl_rnic_vi_stop(rv);
        vipl_rnic_conn_notify(device, from, RNIC_CONTROL_DISCONNECT, rv->qp.number, message->serial);
        return;
    }
    vipl_rnic_data_open(rnic_nic_of_vi(rv), rv);
}

/* Fails the connection, for the reason `code`. */
static void connection_lost(struct rnic_vi *rv, VIP_ERROR_CODE code)
{
    vipl_store_relaxed(&rv->broken, 1);
    vipl_up_fail(rv->vi, code);
}

static void on_disconnect(struct rnic_device *device, const struct vipl_rnic_peer *from,
                          const struct cm_message *message)
{
    struct rnic_vi *rv = find_addressee(device, from, message, RNIC_VI_ACCEPTING, RNIC_VI_CONNECTED);
    if (vipl_rnic_connect_revoke(device, from, message) || rv == NULL) {
        return;
    }
    rv->peer_gone = true;
    if (rv->state == RNIC_VI_ACCEPTING) {
        vipl_rnic_conn_give_up(rv);
    } else {
        connection_lost(rv, VIP_ERROR_CONN_LOST);
    }
}

/* A requester withdraws its request, which waits here or has been accepted by a VI. */
static void on_cancel(struct rnic_device *device, const struct vipl_rnic_peer *from,
                      const struct cm_message *message)
{
    vipl_rnic_listen_cancel(device, from, message->serial);
    struct rnic_vi *rv = vipl_rnic_conn_accepting(device, from, message->serial);
    bool accepted = message->reason == CM_ELSEWHERE && rv != NULL && message->destination_qp == rv->qp.number;
    if (rv != NULL && !accepted) {
        vipl_rnic_conn_give_up(rv);
    }
}

static void on_control(struct rnic_device *device, const struct vipl_rnic_event *event)
{
    struct cm_message message;
    if (!vipl_rnic_cm_read(event->message, event->length, &message)) {
        vipl_log(VIPL_LOG_DEBUG, "rnic: a control message that is not valid was ignored");
        return;
    }
    struct vipl_rnic_peer from = sender_of(event, &message);
    vipl_log(VIPL_LOG_DEBUG,
             "rnic: queue pair %u gets message %u.%u of function %u, queue pair %u, serial %u",
             (unsigned)message.destination_qp, (unsigned)message.kind, (unsigned)message.reason,
             (unsigned)from.function, (unsigned)from.qp, (unsigned)message.serial);
    switch (message.kind) {
    case RNIC_CONTROL_REQUEST:
        vipl_rnic_listen_request(device, &from, &message);
        break;
    case RNIC_CONTROL_CANCEL:
        on_cancel(device, &from, &message);
        break;
    case RNIC_CONTROL_READY:
        on_ready(device, &from, &message);
        break;
    case RNIC_CONTROL_DISCONNECT:
        on_disconnect(device, &from, &message);
        break;
    default:
        vipl_rnic_connect_reply(device, &from, &message);
        break;
    }
}

/* --- events of the card --- */

/* Reports an error of a queue pair to core. On an Unreliable VI a refused message or access leaves
 * the connection as it is; every other error has ended the connection. */
static void report_qp_error(struct rnic_vi *rv, uint16_t code)
{
    switch (code) {
    case RNIC_ERROR_RECV_EMPTY:
        vipl_up_recv_missing(rv->vi);
        break;
    case RNIC_ERROR_WRITE_DENIED:
    case RNIC_ERROR_READ_DENIED:
        vipl_up_recv_lock(rv->vi);
        vipl_up_rdma_refuse(rv->vi, code == RNIC_ERROR_WRITE_DENIED);
        vipl_up_recv_unlock(rv->vi);
        break;
    default:
        connection_lost(rv, VIP_ERROR_CONN_LOST);
        break;
    }
}

static void on_qp_error(struct rnic_device *device, const struct vipl_rnic_event *event)
{
    struct rnic_vi *rv = rnic_vi_at(device, event->object);
    vipl_log(VIPL_LOG_DEBUG, "rnic: queue pair %u: error %u", (unsigned)event->object, (unsigned)event->code);
    if (rv == NULL || rv->ending) {
        return;
    }
    if (rv->state == RNIC_VI_ACCEPTING) {
        vipl_rnic_conn_give_up(rv);
    } else if (rv->state == RNIC_VI_CONNECTED) {
        report_qp_error(rv, event->code);
    }
}

void vipl_rnic_conn_events(struct rnic_device *device)
{
    struct vipl_rnic_event event;
    while (vipl_rnic_next_event(device->rnic, &event)) {
        switch (event.kind) {
        case RNIC_EVENT_CONTROL:
            on_control(device, &event);
            break;
        case RNIC_EVENT_QP_ERROR:
            on_qp_error(device, &event);
            break;
        case RNIC_EVENT_PEER_LOST:
            vipl_rnic_listen_peer_lost(device, event.mac, event.function);
            break;
        case RNIC_EVENT_CATASTROPHIC:
            vipl_rnic_fail(device->rnic, "the card has stopped: the driver is at fault");
            break;
        default:
            break;
        }
    }
    vipl_rnic_connect_finish(device);
}

/* --- the end --- */

static void tear_down_vi(struct rnic_vi *rv)
{
    if (rv->op != NULL) {
        vipl_rnic_connect_end(rv->op);
    }
    if (rv->state == RNIC_VI_CONNECTED) {
        connection_lost(rv, VIP_ERROR_CONN_LOST);
    } else if (rv->state != RNIC_VI_IDLE) {
        rnic_vi_set(rv, RNIC_VI_IDLE);
        vipl_up_connect_failed(rv->vi, VIP_NOT_REACHABLE);
    }
}

void vipl_rnic_conn_tear_down(struct rnic_device *device)
{
    if (vipl_load_relaxed(&device->torn_down) != 0) {
        return;
    }
    vipl_store_relaxed(&device->torn_down, 1);
    vipl_list_remove(&device->link); /* a new NIC handle opens the card again */
    vipl_rnic_listen_tear_down(device);
    for (struct vipl_list *n = device->nics.next; n != &device->nics; n = n->next) {
        struct rnic_nic *nic = VIPL_CONTAINER(n, struct rnic_nic, link);
        for (struct vipl_list *l = nic->vis.next; l != &nic->vis; l = l->next) {
            tear_down_vi(VIPL_CONTAINER(l, struct rnic_vi, link));
        }
        vipl_up_wake(nic->core);
    }
}

static int send_disconnect(struct rnic_device *device, const struct rnic_pending_disconnect *end)
{
    struct cm_message message = {.kind = RNIC_CONTROL_DISCONNECT,
                                 .source_qp = end->source_qp,
                                 .destination_qp = end->peer.qp,
                                 .serial = end->serial};
    return send_cm(device, end->peer.mac, end->peer.function, &message);
}

/*
 * Sends a DISCONNECT, and keeps it for vipl_rnic_conn_timers() if the peer's card takes no message
 * now; otherwise the peer would believe for ever that it is connected. At most one DISCONNECT is
 * pending for a connection, and no new connection comes about with a card that takes no messages,
 * so that the list is bounded.
 */
static void send_disconnect_later(struct rnic_nic *nic, const struct rnic_vi *rv)
{
    struct rnic_device *device = nic->device;
    struct rnic_pending_disconnect end = {.peer = rv->peer, .source_qp = rv->qp.number, .serial = rv->serial};
    if (send_disconnect(device, &end) != EBUSY) {
        return;
    }
    struct rnic_pending_disconnect *kept = vipl_alloc(sizeof(*kept));
    if (kept == NULL) {
        vipl_log(VIPL_LOG_ERROR, "rnic: no memory: a peer does not hear of the end of its connection");
    } else {
        *kept = end;
        vipl_list_init(&kept->link);
        vipl_list_append(&device->pending_disconnects, &kept->link);
        device->disconnect_at = vipl_now_ns() + DISCONNECT_MS * ns_per_ms;
        vipl_store_relaxed(&device->timed, 1);
        vipl_up_wake(nic->core); /* a sleeping thread learns of that time */
    }
}

static void drop_disconnect(struct rnic_pending_disconnect *end)
{
    vipl_list_remove(&end->link);
    vipl_free(end);
}

uint64_t vipl_rnic_conn_timers(struct rnic_device *device, uint64_t now)
{
    struct vipl_list *l = device->pending_disconnects.next;
    if (now < device->disconnect_at && l != &device->pending_disconnects) {
        return device->disconnect_at;
    }
    while (l != &device->pending_disconnects) {
        struct rnic_pending_disconnect *end = VIPL_CONTAINER(l, struct rnic_pending_disconnect, link);
        l = l->next;
        if (send_disconnect(device, end) != EBUSY) {
            drop_disconnect(end);
        }
    }
    device->disconnect_at = vipl_now_ns() + DISCONNECT_MS * ns_per_ms;
    return vipl_list_empty(&device->pending_disconnects) ? UINT64_MAX : device->disconnect_at;
}

void vipl_rnic_conn_drop_disconnects(struct rnic_device *device)
{
    while (!vipl_list_empty(&device->pending_disconnects)) {
        drop_disconnect(
            VIPL_CONTAINER(device->pending_disconnects.next, struct rnic_pending_disconnect, link));
    }
}

void vipl_rnic_conn_disconnect(struct vipl_be_nic *be, struct vipl_vi *vi)
{
    struct rnic_vi *rv = rnic_vi_of(vi);
    vipl_mutex_lock(&vipl_rnic_registry.lock);
    bool connected = rv->state == RNIC_VI_CONNECTED;
    rnic_vi_set(rv, RNIC_VI_IDLE);
    if (connected && !rv->peer_gone) {
        send_disconnect_later(rnic_nic_of(be), rv);
    }
    vipl_mutex_unlock(&vipl_rnic_registry.lock);
}
