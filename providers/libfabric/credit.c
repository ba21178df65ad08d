/* SPDX-License-Identifier: MIT */
/*
 * Credits: a message that finds no receive breaks a VI, so none is sent without one. Each side has
 * 8 bytes into which the peer writes, by RDMA Write, how many receives it has posted so far; a
 * sender compares that with how many it has used. The counts wrap around, and the larger one is
 * taken. A write may be seen half done, so the complement is behind the count; both are big-endian.
 *
 * An operation that has no credit waits in the provider, and so do those behind it, until a call of
 * the program finds credit: a read of a completion queue, fi_trywait() or a wait.
 *
 * The peer is told when at least half of the receives that are left are ones it does not know of:
 * once in 64 messages where 128 are posted ahead. These writes have operations of their own. When
 * all of them are under way, what is missing is told when one of them ends.
 *
 * A peer that tells more than it has breaks its own connection.
 */
#include <arpa/inet.h>
#include <string.h>

#include "provider.h"

/* One count less another one, of counts that wrap around. */
static int32_t less(uint32_t one, uint32_t other)
{
    return (int32_t)(one - other);
}

/* Locked. Whether the peer has a receive for a further message. */
static bool has_credit(struct prov_ep *ep)
{
    if (less(ep->peer_posted, ep->sent) > 0) {
        return true;
    }
    /* Written by the device or by a thread of the library. */
    uint32_t posted = ntohl(__atomic_load_n(&ep->credit->posted, __ATOMIC_ACQUIRE));
    uint32_t complement = ntohl(__atomic_load_n(&ep->credit->complement, __ATOMIC_ACQUIRE));
    if (posted == ~complement && less(posted, ep->peer_posted) > 0) {
        ep->peer_posted = posted;
    }
    return less(ep->peer_posted, ep->sent) > 0;
}

/* Locked. The endpoint has something that another call goes on with. */
static void set_pending(struct prov_ep *ep)
{
    if (list_is_alone(&ep->pending)) {
        list_append(&ep->nic->pending, &ep->pending);
        prov_set(&ep->nic->has_pending, true);
    }
}

void prov_clear_pending(struct prov_ep *ep)
{
    list_remove(&ep->pending);
    prov_set(&ep->nic->has_pending, !list_is_alone(&ep->nic->pending));
}

bool prov_take_credit(struct prov_ep *ep)
{
    bool has = has_credit(ep);
    ep->sent += has ? 1 : 0;
    return has;
}

bool prov_is_waiting(const struct prov_ep *ep)
{
    return !list_is_alone(&ep->waiting);
}

int prov_submit(struct prov_ep *ep, struct prov_op *op)
{
    if (ep->state == PROV_GONE) {
        prov_op_give(op);
        return -FI_ENOTCONN;
    }
    if (prov_is_waiting(ep) || prov_transfer_goes_on(ep) || (op->takes_receive && !prov_take_credit(ep))) {
        list_append(&ep->waiting, &op->entry.link);
        ep->nic->stalls++;
        set_pending(ep);
        return 0;
    }
    int rc = prov_error(VipPostSend(ep->vi, &op->descriptor, ep->pool_handle));
    if (rc != 0) {
        ep->sent -= op->takes_receive ? 1 : 0;
        prov_op_give(op);
    }
    return rc;
}

void prov_push_ep(struct prov_ep *ep)
{
    prov_transfer_continue(ep);
    while (prov_is_waiting(ep) && !prov_transfer_goes_on(ep)) {
        struct prov_op *op = container_of(ep->waiting.next, struct prov_op, entry.link);
        if (op->takes_receive && !prov_take_credit(ep)) {
            break;
        }
        list_remove(&op->entry.link);
        int rc = prov_error(VipPostSend(ep->vi, &op->descriptor, ep->pool_handle));
        if (rc != 0) { /* the device lacks memory for it */
            ep->sent -= op->takes_receive ? 1 : 0;
            op->entry.error = -rc;
            prov_op_finish(op);
        }
    }
    prov_clear_pending(ep);
    prov_credit_advertise(ep);
    if (prov_is_waiting(ep) || prov_transfer_goes_on(ep)) {
        set_pending(ep);
    }
}

void prov_push(struct prov_nic *nic)
{
    unsigned count = list_length(&nic->pending); /* an endpoint may become pending again, at the end */
    while (count-- > 0 && !list_is_alone(&nic->pending)) {
        prov_push_ep(container_of(nic->pending.next, struct prov_ep, pending));
    }
}

void prov_cancel_waiting(struct prov_ep *ep)
{
    if (prov_transfer_goes_on(ep) && ep->transfer.error == 0) {
        ep->transfer.error = FI_ECANCELED;
        ep->transfer.status = VIP_STATUS_DONE | VIP_STATUS_DESC_FLUSHED_ERROR;
        prov_transfer_continue(ep); /* it ends when no part of it is under way */
    }
    while (prov_is_waiting(ep)) {
        struct prov_op *op = container_of(ep->waiting.next, struct prov_op, entry.link);
        list_remove(&op->entry.link);
        op->entry.error = FI_ECANCELED;
        op->entry.status = VIP_STATUS_DONE | VIP_STATUS_DESC_FLUSHED_ERROR;
        prov_op_finish(op);
    }
    prov_clear_pending(ep);
    prov_cq_update_wake(ep->queues.tx);
}

/* Whether the peer may soon need to know of receives. */
static bool is_due(const struct prov_ep *ep)
{
    int32_t known = less(ep->advertised, ep->received);
    int32_t left = less(ep->posted, ep->received);
    return ep->state == PROV_CONNECTED && ep->advertised != ep->posted && known * 2 <= left;
}

void prov_credit_advertise(struct prov_ep *ep)
{
    if (!is_due(ep)) {
        return;
    }
    struct prov_op *op = prov_op_take(&ep->credit_free);
    if (op == NULL) {
        prov_ep_reap_sends(ep); /* which comes here again, if one of them has ended */
        if (is_due(ep)) {
            set_pending(ep);
        }
        return;
    }
    const struct prov_credit credit = {htonl(ep->posted), htonl(~ep->posted)};
    VIP_DESCRIPTOR_SEGMENT *segment = prov_op_begin(op, PROV_OP_CREDIT, VIP_CONTROL_OP_RDMAWRITE);
    memcpy(op->inject, &credit, sizeof(credit));
    segment->Remote.Data.AddressBits = ep->peer_credit_address;
    segment->Remote.Handle = ep->peer_credit_handle;
    segment->Remote.Reserved = 0;
    prov_op_own_bytes(op, segment + 1, sizeof(credit));
    ep->advertised = ep->posted;
    if (VipPostSend(ep->vi, &op->descriptor, ep->pool_handle) != VIP_SUCCESS) {
        prov_op_give(op);
    }
}
