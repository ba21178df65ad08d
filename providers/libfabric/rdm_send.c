/* SPDX-License-Identifier: MIT */
/*
 * Messages that datagram endpoints send. The bytes of a message go with its head: in the
 * operation's own memory where they have room there, else in bounce buffers of the endpoint, as
 * many as the message has parts. Memory of longer messages is registered and offered.
 */
#include <stdlib.h>
#include <string.h>

#include "rdm.h"

static const uint64_t possible_flags = FI_INJECT | FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_MORE | FI_PRIORITY |
                                       FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;

static struct rdm_head head_of(const struct rdm_message *message)
{
    return (struct rdm_head){.kind = RDM_MESSAGE,
                             .tagged = message->tagged,
                             .has_data = (message->flags & FI_REMOTE_CQ_DATA) != 0,
                             .tag = message->tag,
                             .data = message->data,
                             .length = message->total};
}

static uint64_t completion_flags(const struct rdm_message *message)
{
    return FI_SEND | (message->tagged ? FI_TAGGED : FI_MSG);
}

/* --- messages that are copied --- */

static size_t parts_of(const struct rdm_message *message)
{
    return message->total > RDM_EAGER ? (message->total + RDM_EAGER - 1) / RDM_EAGER : 1;
}

/* Not locked. Behind messages that are under way an offer costs no time, and copies less. */
static bool is_offered(const struct rdm_ep *ep, const struct rdm_message *message)
{
    if (message->total <= RDM_EAGER || ep->nic->family != PROV_INET || message->total > RDM_COPIED) {
        return message->total > RDM_EAGER;
    }
    prov_nic_lock(ep->nic);
    bool is_behind = ep->bounce_count < RDM_BOUNCES;
    prov_nic_unlock(ep->nic);
    return is_behind;
}

/* Locked. Sends a head and bytes behind it by an operation that is free. They are the operation's
 * own, or in a bounce buffer. */
static int send_bytes(struct rdm_link *link, struct prov_op *op, enum prov_kind kind, uint8_t *bytes,
                      size_t count, const struct rdm_message *message)
{
    VIP_DESCRIPTOR_SEGMENT *segment = prov_op_begin(op, kind, VIP_CONTROL_OP_SENDRECV);
    prov_op_own_bytes(op, segment, count);
    if (kind != PROV_OP_SEND) {
        segment->Local.Data.AddressBits = (uintptr_t)bytes;
        segment->Local.Handle = link->owner->bounces_handle;
        op->of = bytes;
    }
    op->entry.context = message->context;
    op->entry.flags = completion_flags(message);
    op->entry.tag = message->tag;
    op->wanted = kind != PROV_OP_FIRST && message->wanted;
    op->takes_receive = true;
    bool awaited = op->wanted;
    int rc = prov_submit(link->ep, op);
    if (rc == 0 && awaited) {
        rdm_link_await(link);
    }
    return rc;
}

static int send_short(struct rdm_link *link, struct prov_op *op, const struct rdm_message *message)
{
    const struct rdm_head head = head_of(message);
    (void)prov_gather(op->inject + rdm_head_write(&head, op->inject), message->iov, message->count);
    return send_bytes(link, op, PROV_OP_SEND, op->inject, RDM_HEAD_BYTES + message->total, message);
}

/* Bytes of a message from an offset on. */
static void gather_part(uint8_t *to, const struct rdm_message *message, size_t offset, size_t bytes)
{
    for (size_t i = 0; bytes > 0; i++) {
        const struct iovec *iov = &message->iov[i];
        size_t skip = offset < iov->iov_len ? offset : iov->iov_len;
        size_t part = iov->iov_len - skip < bytes ? iov->iov_len - skip : bytes;
        if (part > 0) {
            memcpy(to, (const uint8_t *)iov->iov_base + skip, part);
        }
        offset -= skip;
        to += part;
        bytes -= part;
    }
}

/* Locked. Sends a part of a message, or all of it, from a bounce buffer. */
static int send_part(struct rdm_link *link, struct prov_op *op, const struct rdm_message *message,
                     size_t offset)
{
    struct rdm_ep *ep = link->owner;
    size_t left = message->total - offset;
    size_t bytes = left < RDM_EAGER ? left : RDM_EAGER;
    struct rdm_head head = head_of(message);
    if (offset > 0) {
        head.kind = RDM_MORE;
        head.length = bytes;
    }
    uint8_t *buffer = ep->bounces_free[--ep->bounce_count];
    gather_part(buffer + rdm_head_write(&head, buffer), message, offset, bytes);
    int rc = send_bytes(link, op, bytes == left ? PROV_OP_BOUNCE : PROV_OP_FIRST, buffer,
                        RDM_HEAD_BYTES + bytes, message);
    if (rc != 0) {
        ep->bounces_free[ep->bounce_count++] = buffer;
    }
    return rc;
}

/* Locked. Sends a message in one part or several, the first by an operation that is free, as are as
 * many bounce buffers. */
static int send_parts(struct rdm_link *link, struct prov_op *op, const struct rdm_message *message)
{
    struct prov_op *ops[RDM_PARTS] = {op};
    size_t parts = parts_of(message);
    size_t sent = 0;
    int rc = 0;
    for (size_t i = 1; i < parts && rc == 0; i++) {
        ops[i] = prov_op_take(&link->ep->tx_free);
        rc = ops[i] != NULL ? 0 : -FI_EAGAIN;
    }
    if (rc != 0) {
        prov_ep_reap_sends(link->ep);
    }
    for (; sent < parts && rc == 0; sent++) {
        rc = send_part(link, ops[sent], message, sent * RDM_EAGER);
    }
    if (rc != 0 && sent > 1) { /* the one that failed has been given back */
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_DATA, "a link ends with a part of a message: %s\n", fi_strerror(-rc));
        prov_ep_gone(link->ep);
    }
    for (size_t i = sent; i < parts && rc != 0 && ops[i] != NULL; i++) {
        prov_op_give(ops[i]);
    }
    return rc;
}

/* --- messages that are offered --- */

static void release_memory(struct rdm_ep *ep, VIPX_REGISTRATION *registrations, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)VipxReleaseMem(ep->nic->handle, &registrations[i]);
    }
}

/* Not locked. Registers the memory of a message, so that the receiver may read it. */
static int register_message(struct rdm_ep *ep, const struct rdm_message *message, struct rdm_head *head,
                            VIPX_REGISTRATION *registrations)
{
    VIP_RETURN rc = VIP_SUCCESS;
    *head = head_of(message);
    head->kind = RDM_OFFER;
    for (size_t i = 0; i < message->count && rc == VIP_SUCCESS; i++) {
        const struct iovec *iov = &message->iov[i];
        if (iov->iov_len > 0) {
            rc = prov_acquire(ep->domain, iov, FI_REMOTE_READ, false, &registrations[head->count]);
            if (rc == VIP_SUCCESS) {
                head->pieces[head->count] = (struct rdm_piece){(uintptr_t)iov->iov_base, iov->iov_len,
                                                               registrations[head->count].Handle};
                head->count++;
            }
        }
    }
    if (rc != VIP_SUCCESS) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_DATA, "a message of %zu bytes is not registered: %s\n",
                 message->total, VipxExplainError(rc));
        release_memory(ep, registrations, head->count);
    }
    return prov_error(rc);
}

/* Locked. Sends an offer by an operation that is free. */
static int send_offer(struct rdm_link *link, struct prov_op *op, const struct rdm_message *message,
                      struct rdm_head *head, const VIPX_REGISTRATION *registrations)
{
    struct rdm_ep *ep = link->owner;
    struct rdm_offer *offer = container_of(list_pop(&ep->offers_free), struct rdm_offer, link);
    offer->id += RDM_OFFERS; /* another one than the last time */
    head->id = offer->id;
    offer->to = link;
    offer->count = head->count;
    memcpy(offer->registrations, registrations, head->count * sizeof(*registrations));
    offer->wanted = message->wanted;
    offer->entry.context = message->context;
    offer->entry.flags = completion_flags(message);
    offer->entry.tag = message->tag;
    offer->entry.error = 0;
    list_append(&link->offers, &offer->link);
    VIP_DESCRIPTOR_SEGMENT *segment = prov_op_begin(op, PROV_OP_NOTE, VIP_CONTROL_OP_SENDRECV);
    prov_op_own_bytes(op, segment, rdm_head_write(head, op->inject));
    op->takes_receive = true;
    int rc = prov_submit(link->ep, op);
    if (rc != 0) {
        offer->to = NULL;
        list_remove(&offer->link);
        list_append(&ep->offers_free, &offer->link);
    }
    return rc;
}

/* Locked. The offer is over: its memory is the program's again. */
static void finish_offer(struct rdm_offer *offer, int error)
{
    struct rdm_ep *ep = offer->ep;
    offer->to = NULL;
    release_memory(ep, offer->registrations, offer->count);
    list_remove(&offer->link);
    offer->entry.error = error;
    if (offer->wanted || error != 0) {
        prov_cq_add(ep->queues.tx, &offer->entry);
    } else {
        list_append(&ep->offers_free, &offer->link);
    }
}

/* The program has read the completion. */
static void release_offer(struct prov_entry *entry)
{
    struct rdm_offer *offer = container_of(entry, struct rdm_offer, entry);
    list_append(&offer->ep->offers_free, &offer->link);
}

bool rdm_offer_done(struct rdm_link *link, uint32_t id)
{
    struct rdm_offer *offer = &link->owner->offers[id % RDM_OFFERS];
    if (offer->id != id || offer->to != link) {
        return false;
    }
    finish_offer(offer, 0);
    return true;
}

void rdm_offers_cancel(struct rdm_link *link)
{
    while (!list_is_alone(&link->offers)) {
        finish_offer(container_of(link->offers.next, struct rdm_offer, link), FI_ECANCELED);
    }
    prov_cq_update_wake(link->owner->queues.tx);
}

void rdm_sent(struct rdm_link *link, struct prov_op *op)
{
    struct rdm_ep *ep = link->owner;
    bool is_first = op->kind == PROV_OP_FIRST;
    bool is_program = op->kind != PROV_OP_NOTE && !is_first;
    if (is_first || op->kind == PROV_OP_BOUNCE) {
        ep->bounces_free[ep->bounce_count++] = op->of;
    }
    if (is_first && op->entry.error != 0) {
        prov_ep_gone(link->ep); /* the parts behind it must not arrive: they wait, and are cancelled */
    }
    if (is_program && (op->wanted || op->entry.error != 0)) {
        prov_cq_add(ep->queues.tx, &op->entry);
    } else {
        prov_op_give(op);
    }
}

/* --- any message --- */

/* Locked. An operation for the message, to the link; or why there is none. */
static struct prov_op *begin_send(struct rdm_ep *ep, const struct rdm_message *message, bool offered,
                                  struct rdm_link **link, int *rc)
{
    *link = rdm_link_to(ep, message->to, rc);
    if (*link == NULL) {
        return NULL;
    }
    bool has_room = offered ? !list_is_alone(&ep->offers_free)
                            : message->total <= RDM_INJECT || ep->bounce_count >= parts_of(message);
    struct prov_op *op = has_room ? prov_op_take(&(*link)->ep->tx_free) : NULL;
    if (op == NULL) {
        prov_ep_reap_sends((*link)->ep);
        *rc = -FI_EAGAIN;
    }
    return op;
}

ssize_t rdm_send(struct rdm_ep *ep, struct rdm_message *message)
{
    VIPX_REGISTRATION registrations[PROV_IOVS];
    struct rdm_head head = {.count = 0};
    struct rdm_link *link = NULL;
    if (message->count > PROV_IOVS) {
        return -FI_EINVAL;
    }
    for (size_t i = 0; i < message->count; i++) {
        message->total += message->iov[i].iov_len;
    }
    bool offered = is_offered(ep, message);
    if ((message->flags & FI_INJECT) != 0 && message->total > RDM_INJECT) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_DATA, "a message of %zu bytes is too long\n", message->total);
        return -FI_EMSGSIZE;
    }
    int rc = prov_check_flags(message->flags, possible_flags);
    if (rc == 0 && !ep->enabled) {
        rc = -FI_EOPBADSTATE;
    }
    if (rc == 0 && offered) {
        rc = register_message(ep, message, &head, registrations);
    }
    if (rc != 0) {
        return rc;
    }
    prov_nic_lock(ep->nic);
    struct prov_op *op = begin_send(ep, message, offered, &link, &rc);
    if (op != NULL) {
        rc = offered                        ? send_offer(link, op, message, &head, registrations)
             : message->total <= RDM_INJECT ? send_short(link, op, message)
                                            : send_parts(link, op, message);
    }
    prov_nic_unlock(ep->nic);
    if (rc != 0) {
        release_memory(ep, registrations, head.count);
    }
    return rc;
}

/* --- the endpoint's own memory --- */

int rdm_send_start(struct rdm_ep *ep)
{
    VIP_MEM_ATTRIBUTES rights = {.Ptag = ep->domain->ptag};
    size_t bytes = (size_t)RDM_BOUNCES * RDM_BUFFER_BYTES;
    void *memory = NULL;
    list_init(&ep->offers_free);
    ep->offers = calloc(RDM_OFFERS, sizeof(*ep->offers));
    for (uint32_t i = 0; ep->offers != NULL && i < RDM_OFFERS; i++) {
        ep->offers[i].ep = ep;
        ep->offers[i].id = i;
        ep->offers[i].entry.release = release_offer;
        ep->offers[i].entry.source = FI_ADDR_NOTAVAIL;
        list_init(&ep->offers[i].entry.link);
        list_init(&ep->offers[i].link);
        list_append(&ep->offers_free, &ep->offers[i].link);
    }
    if (ep->offers == NULL || posix_memalign(&memory, 4096, bytes) != 0) {
        return -FI_ENOMEM;
    }
    ep->bounces = memory;
    for (ep->bounce_count = 0; ep->bounce_count < RDM_BOUNCES; ep->bounce_count++) {
        ep->bounces_free[ep->bounce_count] = ep->bounces + ep->bounce_count * RDM_BUFFER_BYTES;
    }
    return prov_error(VipRegisterMem(ep->nic->handle, memory, bytes, &rights, &ep->bounces_handle));
}

void rdm_send_end(struct rdm_ep *ep)
{
    for (uint32_t i = 0; ep->offers != NULL && i < RDM_OFFERS; i++) {
        struct prov_entry *entry = &ep->offers[i].entry;
        if (!list_is_alone(&entry->link)) {
            prov_cq_remove(ep->queues.tx, entry); /* the program has not read it */
        }
    }
    if (ep->bounces_handle != 0) {
        (void)VipDeregisterMem(ep->nic->handle, ep->bounces, ep->bounces_handle);
    }
    free(ep->bounces);
    free(ep->offers);
    ep->bounces = NULL;
    ep->offers = NULL;
    ep->bounces_handle = 0;
}
