/* SPDX-License-Identifier: MIT */
/*
 * Receives of datagram endpoints, and what comes for them. Messages of one sender are matched in
 * the order in which they were sent, receives in the order in which they were posted. A message
 * that finds no receive is copied, so that its buffer takes the next one.
 */
#include <stdlib.h>
#include <string.h>

#include "rdm.h"

enum { BLOCK = 64 }; /* receives that are allocated at a time */

struct block {
    struct list of_ep;
    struct rdm_receive receives[BLOCK];
};

/* --- receives --- */

static void release_receive(struct prov_entry *entry)
{
    struct rdm_receive *receive = container_of(entry, struct rdm_receive, entry);
    list_prepend(&receive->ep->receives_free, &receive->link);
}

/* Locked. NULL: there is no memory. */
static struct rdm_receive *take_receive(struct rdm_ep *ep)
{
    if (list_is_alone(&ep->receives_free)) {
        struct block *block = calloc(1, sizeof(*block));
        if (block == NULL) {
            return NULL;
        }
        list_append(&ep->blocks, &block->of_ep);
        for (size_t i = 0; i < BLOCK; i++) {
            block->receives[i].ep = ep;
            block->receives[i].entry.release = release_receive;
            list_init(&block->receives[i].entry.link);
            list_init(&block->receives[i].link);
            list_append(&ep->receives_free, &block->receives[i].link);
        }
    }
    return container_of(list_pop(&ep->receives_free), struct rdm_receive, link);
}

/* Locked. The receive is over. */
static void finish(struct rdm_receive *receive)
{
    if (receive->wanted || receive->entry.error != 0) {
        prov_cq_add(receive->ep->queues.rx, &receive->entry);
    } else {
        release_receive(&receive->entry);
    }
}

static void name_message(struct prov_entry *entry, const struct rdm_link *from, const struct rdm_head *head)
{
    entry->flags = FI_RECV | (head->tagged ? FI_TAGGED : FI_MSG) | (head->has_data ? FI_REMOTE_CQ_DATA : 0);
    entry->tag = head->tag;
    entry->data = head->data;
    entry->source = from->source;
    entry->length = head->length;
    entry->excess = 0;
}

/* Bytes of the message that have room; the others make the receive fail. */
static size_t cut(struct rdm_receive *receive, const struct rdm_head *head)
{
    size_t room = 0;
    for (size_t i = 0; i < receive->count; i++) {
        room += receive->iov[i].iov_len;
    }
    if (head->length <= room || receive->discards) {
        return head->length <= room ? head->length : room;
    }
    receive->entry.length = room;
    receive->entry.excess = head->length - room;
    receive->entry.error = FI_ETRUNC;
    return room;
}

/* --- messages that came with their bytes --- */

/* Locked. Stores the next bytes of the message, as far as they have room. */
static void place(struct rdm_receive *receive, const uint8_t *bytes, size_t count)
{
    count = count < receive->left ? count : receive->left;
    receive->left -= count;
    while (count > 0) {
        const struct iovec *iov = &receive->iov[receive->index];
        size_t part = iov->iov_len - receive->at < count ? iov->iov_len - receive->at : count;
        if (part > 0) {
            memcpy((uint8_t *)iov->iov_base + receive->at, bytes, part);
        }
        bytes += part;
        count -= part;
        receive->at += part;
        if (receive->at == iov->iov_len) {
            receive->index++;
            receive->at = 0;
        }
    }
}

/* Locked. A message has matched, of which so many bytes have come. */
static void take_bytes(struct rdm_receive *receive, struct rdm_link *from, const struct rdm_head *head,
                       const uint8_t *bytes, size_t count)
{
    name_message(&receive->entry, from, head);
    receive->index = receive->at = 0;
    receive->left = cut(receive, head);
    place(receive, bytes, count);
    if (count == head->length) {
        finish(receive);
    } else {
        from->into = receive;
        from->to_come = head->length - count;
    }
}

/* Locked. False: there are not so many bytes to come. */
static bool take_more(struct rdm_link *link, const uint8_t *bytes, size_t count)
{
    struct rdm_receive *receive = link->into;
    struct rdm_unexpected *kept = link->kept;
    if (count > link->to_come) {
        return false;
    }
    link->to_come -= count;
    if (receive != NULL) {
        place(receive, bytes, count);
    } else {
        memcpy(kept->bytes + kept->has, bytes, count);
        kept->has += count;
    }
    if (link->to_come == 0) {
        link->into = NULL;
        link->kept = NULL;
        if (receive != NULL) {
            finish(receive);
        }
    }
    return true;
}

void rdm_parts_abandon(struct rdm_link *link)
{
    struct rdm_unexpected *kept = link->kept;
    struct rdm_receive *receive = link->into;
    link->into = NULL;
    link->kept = NULL;
    link->to_come = 0;
    if (receive != NULL) {
        receive->entry.flags = FI_RECV | (receive->tagged ? FI_TAGGED : FI_MSG);
        receive->entry.length = receive->entry.excess = 0;
        receive->entry.error = FI_ECONNABORTED;
        finish(receive);
    }
    if (kept != NULL) {
        list_remove(&kept->link);
        free(kept);
    }
}

/* --- messages that are read --- */

/* Locked. The message is read, or cannot be: the sender is told, by an operation that is free. */
static void end_reading(struct rdm_receive *receive, struct prov_op *op)
{
    struct rdm_link *link = receive->from;
    for (size_t i = 0; i < receive->registered; i++) {
        (void)VipxReleaseMem(receive->ep->nic->handle, &receive->registrations[i]);
    }
    receive->registered = 0;
    const struct rdm_head done = {.kind = RDM_DONE, .id = receive->head.id};
    VIP_DESCRIPTOR_SEGMENT *segment = prov_op_begin(op, PROV_OP_NOTE, VIP_CONTROL_OP_SENDRECV);
    prov_op_own_bytes(op, segment, rdm_head_write(&done, op->inject));
    op->takes_receive = true;
    (void)prov_submit(link->ep, op);
    finish(receive);
}

/* Locked. Posts the next read: up to the end of a piece there, or of a piece of memory here. */
static bool post_read(struct rdm_receive *receive, struct prov_op *op)
{
    struct prov_ep *ep = receive->from->ep;
    while (receive->at == receive->iov[receive->index].iov_len) {
        receive->index++;
        receive->at = 0;
    }
    const struct rdm_piece *piece = &receive->head.pieces[receive->piece];
    const struct iovec *iov = &receive->iov[receive->index];
    size_t bytes = ep->nic->attributes.MaxTransferSize;
    bytes = bytes < receive->left ? bytes : receive->left;
    bytes = bytes < piece->length - receive->piece_at ? bytes : piece->length - receive->piece_at;
    bytes = bytes < iov->iov_len - receive->at ? bytes : iov->iov_len - receive->at;
    VIP_DESCRIPTOR_SEGMENT *segment = prov_op_begin(op, PROV_OP_READ, VIP_CONTROL_OP_RDMAREAD);
    segment->Remote.Data.AddressBits = piece->address + receive->piece_at;
    segment->Remote.Handle = piece->handle;
    segment->Remote.Reserved = 0;
    segment++;
    segment->Local.Data.AddressBits = (uintptr_t)iov->iov_base + receive->at;
    segment->Local.Handle = receive->registrations[receive->index].Handle;
    segment->Local.Length = (VIP_UINT32)bytes;
    op->descriptor.CS.SegCount = 2;
    op->of = receive;
    if (VipPostSend(ep->vi, &op->descriptor, ep->pool_handle) != VIP_SUCCESS) {
        return false;
    }
    rdm_link_await(receive->from);
    receive->at += bytes;
    receive->piece_at += bytes;
    receive->left -= bytes;
    if (receive->piece_at == piece->length) {
        receive->piece++;
        receive->piece_at = 0;
    }
    receive->reading++;
    return true;
}

/* Locked. Reads on, as far as there are operations. */
static void read_on(struct rdm_receive *receive)
{
    struct rdm_link *link = receive->from;
    while ((receive->left > 0 && receive->reading < RDM_READS) || receive->reading == 0) {
        struct prov_op *op = prov_op_take(&link->ep->tx_free);
        if (op == NULL) {
            if (list_is_alone(&receive->link)) {
                list_append(&link->reads, &receive->link);
            }
            return;
        }
        if (receive->left == 0) {
            end_reading(receive, op);
            return;
        }
        if (!post_read(receive, op)) {
            prov_op_give(op);
            receive->entry.error = FI_EIO;
            receive->left = 0;
        }
    }
}

/* Locked. Registers the memory that the message goes to. */
static VIP_RETURN register_receive(struct rdm_receive *receive, size_t bytes)
{
    VIP_RETURN rc = VIP_SUCCESS;
    for (size_t i = 0; i < receive->count && bytes > 0 && rc == VIP_SUCCESS; i++) {
        const struct iovec *iov = &receive->iov[i];
        VIPX_REGISTRATION *one = &receive->registrations[i];
        memset(one, 0, sizeof(*one));
        if (iov->iov_len > 0) {
            rc = prov_acquire(receive->ep->domain, iov, 0, false, one);
        }
        receive->registered += rc == VIP_SUCCESS ? 1 : 0;
        bytes -= iov->iov_len < bytes ? iov->iov_len : bytes;
    }
    return rc;
}

static void take_offer(struct rdm_receive *receive, struct rdm_link *from, const struct rdm_head *head)
{
    name_message(&receive->entry, from, head);
    receive->from = from;
    receive->head = *head;
    receive->piece = receive->piece_at = receive->index = receive->at = 0;
    receive->reading = 0;
    receive->registered = 0;
    receive->left = cut(receive, head);
    VIP_RETURN rc = register_receive(receive, receive->left);
    if (rc != VIP_SUCCESS) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_DATA, "a message of %llu bytes is not read: %s\n",
                 (unsigned long long)head->length, VipxExplainError(rc));
        receive->entry.error = -prov_error(rc);
        receive->left = 0;
    }
    read_on(receive);
}

void rdm_read_done(struct prov_op *op)
{
    struct rdm_receive *receive = op->of;
    receive->reading--;
    if (op->entry.error != 0) {
        receive->entry.error = op->entry.error;
        receive->entry.status = op->entry.status;
        receive->left = 0;
    }
    prov_op_give(op);
    list_remove(&receive->link);
    read_on(receive);
}

void rdm_reads_continue(struct rdm_link *link)
{
    for (unsigned count = list_length(&link->reads); count > 0 && !list_is_alone(&link->ep->tx_free);
         count--) {
        struct rdm_receive *receive = container_of(list_pop(&link->reads), struct rdm_receive, link);
        read_on(receive);
    }
}

/* --- matching --- */

static bool matches(const struct rdm_receive *receive, const struct rdm_link *from,
                    const struct rdm_head *head)
{
    return ((receive->entry.tag ^ head->tag) & ~receive->ignored) == 0 &&
           (receive->entry.source == FI_ADDR_UNSPEC || receive->entry.source == from->source);
}

/* Locked. A message that there is no receive for. */
static void keep_message(struct rdm_link *link, const struct rdm_head *head, const uint8_t *bytes,
                         size_t count)
{
    size_t length = head->kind == RDM_MESSAGE ? head->length : 0;
    struct rdm_unexpected *one = malloc(sizeof(*one) + length);
    if (one == NULL) {
        rdm_link_refuse(link, "there is no memory for a message that no receive waits for");
        return;
    }
    one->from = link;
    one->head = *head;
    one->has = length > 0 ? count : 0;
    memcpy(one->bytes, bytes, one->has);
    list_append(&link->owner->unexpected[head->tagged], &one->link);
    if (one->has < length) {
        link->kept = one;
        link->to_come = length - one->has;
    }
}

bool rdm_arrived(struct rdm_link *link, const struct rdm_head *head, const uint8_t *bytes, size_t count)
{
    if (head->kind == RDM_MORE || link->to_come > 0) {
        return head->kind == RDM_MORE && take_more(link, bytes, count);
    }
    struct list *all = &link->owner->posted[head->tagged];
    for (struct list *one = all->next; one != all; one = one->next) {
        struct rdm_receive *receive = container_of(one, struct rdm_receive, link);
        if (matches(receive, link, head)) {
            list_remove(&receive->link);
            if (head->kind == RDM_MESSAGE) {
                take_bytes(receive, link, head, bytes, count);
            } else {
                take_offer(receive, link, head);
            }
            return true;
        }
    }
    keep_message(link, head, bytes, count);
    return true;
}

/* Locked. The first message that the receive matches; NULL: none has come. */
static struct rdm_unexpected *find_message(const struct rdm_ep *ep, const struct rdm_receive *receive)
{
    const struct list *all = &ep->unexpected[receive->tagged];
    for (struct list *one = all->next; one != all; one = one->next) {
        struct rdm_unexpected *message = container_of(one, struct rdm_unexpected, link);
        if (matches(receive, message->from, &message->head)) {
            return message;
        }
    }
    return NULL;
}

/* Locked. Gives a message to a receive. */
static void take_message(struct rdm_receive *receive, struct rdm_unexpected *message)
{
    struct rdm_link *from = message->from;
    list_remove(&message->link);
    from->kept = from->kept == message ? NULL : from->kept; /* parts that are to come go to the receive */
    if (message->head.kind == RDM_MESSAGE) {
        take_bytes(receive, from, &message->head, message->bytes, message->has);
    } else {
        take_offer(receive, from, &message->head);
    }
    free(message);
}

/* Locked. FI_PEEK: says what message the receive would get, and with FI_CLAIM keeps it for one that
 * has the same context; with FI_DISCARD drops it. */
static void peek(struct rdm_ep *ep, struct rdm_receive *receive, uint64_t flags)
{
    struct fi_context *context = receive->entry.context;
    (void)prov_cq_ready(ep->queues.rx);
    struct rdm_unexpected *message = find_message(ep, receive);
    receive->wanted = true;
    if (message == NULL) {
        receive->entry.flags = FI_RECV | (receive->tagged ? FI_TAGGED : FI_MSG);
        receive->entry.error = FI_ENOMSG;
        finish(receive);
        return;
    }
    name_message(&receive->entry, message->from, &message->head);
    if ((flags & FI_DISCARD) != 0) {
        receive->discards = true;
        receive->count = 0;
        take_message(receive, message);
        return;
    }
    if ((flags & FI_CLAIM) != 0) {
        list_remove(&message->link);
        list_append(&ep->claimed, &message->link);
        context->internal[0] = message;
    }
    finish(receive);
}

/* Locked. The message that an earlier FI_PEEK | FI_CLAIM has kept; NULL: the context is of none. */
static struct rdm_unexpected *find_claimed(const struct rdm_ep *ep, const struct fi_context *context)
{
    for (struct list *one = ep->claimed.next; one != &ep->claimed; one = one->next) {
        struct rdm_unexpected *message = container_of(one, struct rdm_unexpected, link);
        if (context != NULL && context->internal[0] == message) {
            return message;
        }
    }
    return NULL;
}

/* Locked. */
static int begin(struct rdm_ep *ep, struct rdm_receive *receive, uint64_t flags)
{
    struct rdm_unexpected *message;
    if ((flags & FI_PEEK) != 0) {
        peek(ep, receive, flags);
        prov_cq_update_wake(ep->queues.rx);
        return 0;
    }
    if ((flags & FI_CLAIM) != 0) {
        message = find_claimed(ep, receive->entry.context);
        if (message == NULL) {
            release_receive(&receive->entry);
            return -FI_EINVAL;
        }
        if ((flags & FI_DISCARD) != 0) {
            receive->discards = true;
            receive->count = 0;
        }
    } else {
        message = find_message(ep, receive);
    }
    if (message == NULL) {
        list_append(&ep->posted[receive->tagged], &receive->link);
        return 0;
    }
    take_message(receive, message);
    prov_cq_update_wake(ep->queues.rx);
    return 0;
}

ssize_t rdm_receive(struct rdm_ep *ep, const struct iovec *iov, size_t count, fi_addr_t source, uint64_t tag,
                    uint64_t ignored, void *context, uint64_t flags, bool tagged)
{
    ssize_t rc = prov_check_flags(flags, FI_COMPLETION | FI_MORE | FI_PEEK | FI_CLAIM | FI_DISCARD);
    if (rc != 0) {
        return rc;
    }
    if (count > PROV_IOVS || !ep->enabled) {
        return count > PROV_IOVS ? -FI_EINVAL : -FI_EOPBADSTATE;
    }
    prov_nic_lock(ep->nic);
    struct rdm_receive *receive = take_receive(ep);
    rc = -FI_EAGAIN;
    if (receive != NULL) {
        receive->wanted = !ep->queues.rx_selective || (flags & FI_COMPLETION) != 0;
        receive->tagged = tagged;
        receive->discards = false;
        receive->ignored = ignored;
        receive->count = count;
        for (size_t i = 0; i < count; i++) {
            receive->iov[i] = iov[i];
        }
        receive->entry.context = context;
        receive->entry.buffer = count > 0 ? iov[0].iov_base : NULL;
        receive->entry.tag = tag;
        receive->entry.source = (ep->info->caps & FI_DIRECTED_RECV) != 0 ? source : FI_ADDR_UNSPEC;
        receive->entry.error = 0;
        receive->entry.status = 0;
        rc = begin(ep, receive, flags);
    }
    prov_nic_unlock(ep->nic);
    return rc;
}

/* Locked. Ends a receive that no message has matched. */
static bool cancel(struct rdm_ep *ep, struct list *all, const void *context)
{
    for (struct list *one = all->next; one != all; one = one->next) {
        struct rdm_receive *receive = container_of(one, struct rdm_receive, link);
        if (receive->entry.context == context) {
            list_remove(&receive->link);
            receive->entry.flags = FI_RECV | (receive->tagged ? FI_TAGGED : FI_MSG);
            receive->entry.length = receive->entry.excess = 0;
            receive->entry.error = FI_ECANCELED;
            finish(receive);
            prov_cq_update_wake(ep->queues.rx);
            return true;
        }
    }
    return false;
}

ssize_t rdm_cancel(fid_t fid, void *context)
{
    struct rdm_ep *ep = container_of(fid, struct rdm_ep, fid.fid);
    prov_nic_lock(ep->nic);
    bool found = cancel(ep, &ep->posted[true], context) || cancel(ep, &ep->posted[false], context);
    prov_nic_unlock(ep->nic);
    return found ? 0 : -FI_ENOENT;
}

/* --- the endpoint's own memory --- */

void rdm_receive_start(struct rdm_ep *ep)
{
    for (int i = 0; i < 2; i++) {
        list_init(&ep->posted[i]);
        list_init(&ep->unexpected[i]);
    }
    list_init(&ep->claimed);
    list_init(&ep->receives_free);
    list_init(&ep->blocks);
}

static void drop_messages(struct list *all)
{
    while (!list_is_alone(all)) {
        free(container_of(list_pop(all), struct rdm_unexpected, link));
    }
}

void rdm_receive_end(struct rdm_ep *ep)
{
    drop_messages(&ep->unexpected[false]);
    drop_messages(&ep->unexpected[true]);
    drop_messages(&ep->claimed);
    while (!list_is_alone(&ep->blocks)) {
        struct block *block = container_of(list_pop(&ep->blocks), struct block, of_ep);
        for (size_t i = 0; i < BLOCK; i++) {
            struct rdm_receive *one = &block->receives[i];
            if (!list_is_alone(&one->entry.link)) {
                prov_cq_remove(ep->queues.rx, &one->entry); /* the program has not read it */
            }
            for (size_t k = 0; k < one->registered; k++) {
                (void)VipxReleaseMem(ep->nic->handle, &one->registrations[k]);
            }
        }
        free(block);
    }
}
