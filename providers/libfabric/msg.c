/* SPDX-License-Identifier: MIT */
/* Messages: fi_send() and its like, fi_recv() and its like. */
#include <string.h>

#include "provider.h"

static const uint64_t possible_send_flags = FI_INJECT | FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_MORE |
                                            FI_PRIORITY | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
                                            FI_FENCE;

int prov_check_flags(uint64_t flags, uint64_t possible)
{
    if ((flags & ~possible) == 0) {
        return 0;
    }
    PROV_LOG(FI_LOG_WARN, FI_LOG_EP_DATA, "flags %#llx are not supported\n",
             (unsigned long long)(flags & ~possible));
    return -FI_EOPNOTSUPP;
}

int prov_ep_can_send(const struct prov_ep *ep)
{
    if (ep->state == PROV_CONNECTED) {
        return 0;
    }
    return ep->state == PROV_CONNECTING ? -FI_EAGAIN : -FI_ENOTCONN;
}

size_t prov_gather(uint8_t *to, const struct iovec *iov, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (iov[i].iov_len > 0) {
            memcpy(to + at, iov[i].iov_base, iov[i].iov_len);
            at += iov[i].iov_len;
        }
    }
    return at;
}

int prov_fill(struct prov_op *op, VIP_DESCRIPTOR_SEGMENT *first, const struct iovec *iov, void *const *desc,
              size_t count)
{
    VIP_DESCRIPTOR_SEGMENT *segment = first;
    for (size_t i = 0; i < count; i++) {
        if (iov[i].iov_len > 0) {
            if (desc == NULL || desc[i] == NULL || iov[i].iov_len > UINT32_MAX) {
                PROV_LOG(FI_LOG_WARN, FI_LOG_EP_DATA, "memory without the descriptor of its region\n");
                return -FI_EINVAL;
            }
            segment->Local.Data.AddressBits = (uintptr_t)iov[i].iov_base;
            segment->Local.Handle = prov_mr_handle(desc[i]);
            segment->Local.Length = (VIP_UINT32)iov[i].iov_len;
            segment++;
        }
    }
    op->descriptor.CS.SegCount = (VIP_UINT16)(segment - op->descriptor.DS);
    return 0;
}

/* Posts a receive; the caller has the lock. */
static ssize_t post_recv(struct prov_ep *ep, const struct iovec *iov, void *const *desc, size_t count,
                         void *context, bool wanted)
{
    if (ep->state == PROV_IDLE) {
        return -FI_EOPBADSTATE;
    }
    struct prov_op *op = prov_op_take(&ep->rx_free);
    if (op == NULL) {
        return -FI_EAGAIN;
    }
    VIP_DESCRIPTOR_SEGMENT *first = prov_op_begin(op, PROV_OP_RECV, VIP_CONTROL_OP_SENDRECV);
    int rc = prov_fill(op, first, iov, desc, count);
    op->entry.context = context;
    op->wanted = wanted;
    op->entry.buffer = count > 0 ? iov[0].iov_base : NULL;
    if (rc == 0) {
        rc = prov_error(VipPostRecv(ep->vi, &op->descriptor, ep->pool_handle));
    }
    if (rc != 0) {
        prov_op_give(op);
        return rc;
    }
    ep->posted++;
    prov_credit_advertise(ep);
    return 0;
}

static ssize_t receive(struct fid_ep *fid, const struct iovec *iov, void *const *desc, size_t count,
                       void *context, uint64_t flags)
{
    struct prov_ep *ep = prov_ep_of(fid);
    if (count > PROV_IOVS) {
        return -FI_EINVAL;
    }
    ssize_t rc = prov_check_flags(flags, FI_COMPLETION | FI_MORE);
    if (rc == 0) {
        prov_nic_lock(ep->nic);
        rc = post_recv(ep, iov, desc, count, context,
                       !ep->queues.rx_selective || (flags & FI_COMPLETION) != 0);
        prov_nic_unlock(ep->nic);
    }
    return rc;
}

/* A message that a program sends. */
struct message {
    const struct iovec *iov;
    void *const *desc;
    size_t count;
    void *context;
    uint64_t flags;
    uint64_t data;
    bool wanted;
};

/* Posts a send; the caller has the lock. */
static ssize_t post_send(struct prov_ep *ep, const struct message *message)
{
    uint16_t control = VIP_CONTROL_OP_SENDRECV;
    int rc = prov_ep_can_send(ep);
    if (rc != 0) {
        return rc;
    }
    struct prov_op *op = prov_op_take(&ep->tx_free);
    if (op == NULL) {
        prov_ep_reap_sends(ep);
        return -FI_EAGAIN;
    }
    if ((message->flags & FI_REMOTE_CQ_DATA) != 0) {
        control |= VIP_CONTROL_IMMEDIATE;
    }
    if ((message->flags & FI_FENCE) != 0) {
        control |= VIP_CONTROL_QFENCE;
    }
    VIP_DESCRIPTOR_SEGMENT *first = prov_op_begin(op, PROV_OP_SEND, control);
    op->entry.context = message->context;
    op->wanted = message->wanted;
    op->entry.flags = FI_SEND | FI_MSG;
    op->takes_receive = true;
    op->descriptor.CS.ImmediateData = (uint32_t)message->data;
    if ((message->flags & FI_INJECT) != 0) {
        prov_op_own_bytes(op, first, prov_gather(op->inject, message->iov, message->count));
    } else {
        rc = prov_fill(op, first, message->iov, message->desc, message->count);
    }
    if (rc != 0) {
        prov_op_give(op);
        return rc;
    }
    return prov_submit(ep, op);
}

static ssize_t transmit(struct fid_ep *fid, const struct message *message)
{
    struct prov_ep *ep = prov_ep_of(fid);
    size_t total = 0;
    if (message->count > PROV_IOVS || message->data > UINT32_MAX) {
        return -FI_EINVAL;
    }
    for (size_t i = 0; i < message->count; i++) {
        total += message->iov[i].iov_len;
    }
    if (total > ep->nic->attributes.MaxTransferSize ||
        ((message->flags & FI_INJECT) != 0 && total > PROV_INJECT)) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_DATA, "a message of %zu bytes is too long\n", total);
        return -FI_EMSGSIZE;
    }
    ssize_t rc = prov_check_flags(message->flags, possible_send_flags);
    if (rc == 0) {
        prov_nic_lock(ep->nic);
        rc = post_send(ep, message);
        prov_nic_unlock(ep->nic);
    }
    return rc;
}

static ssize_t msg_recv(struct fid_ep *fid, void *buffer, size_t bytes, void *desc, fi_addr_t source,
                        void *context)
{
    const struct iovec iov = {buffer, bytes};
    (void)source;
    return receive(fid, &iov, &desc, 1, context, prov_ep_of(fid)->info->rx_attr->op_flags);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t source, void *context)
{
    (void)source;
    return receive(fid, iov, desc, count, context, prov_ep_of(fid)->info->rx_attr->op_flags);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *message, uint64_t flags)
{
    return receive(fid, message->msg_iov, message->desc, message->iov_count, message->context, flags);
}

/* What a call without flags of its own sends: with the flags of the endpoint. */
static struct message plain(struct fid_ep *fid, const struct iovec *iov, void *const *desc, size_t count,
                            void *context)
{
    const struct prov_ep *ep = prov_ep_of(fid);
    uint64_t flags = ep->info->tx_attr->op_flags;
    return (struct message){.iov = iov,
                            .desc = desc,
                            .count = count,
                            .context = context,
                            .flags = flags,
                            .wanted = !ep->queues.tx_selective || (flags & FI_COMPLETION) != 0};
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t destination, void *context)
{
    const struct message message = plain(fid, iov, desc, count, context);
    (void)destination;
    return transmit(fid, &message);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buffer, size_t bytes, void *desc,
                        fi_addr_t destination, void *context)
{
    const struct iovec iov = {(void *)buffer, bytes};
    return msg_sendv(fid, &iov, &desc, 1, destination, context);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *from, uint64_t flags)
{
    struct message message = plain(fid, from->msg_iov, from->desc, from->iov_count, from->context);
    message.flags = flags;
    message.data = (flags & FI_REMOTE_CQ_DATA) != 0 ? from->data : 0;
    message.wanted = !prov_ep_of(fid)->queues.tx_selective || (flags & FI_COMPLETION) != 0;
    return transmit(fid, &message);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buffer, size_t bytes, void *desc, uint64_t data,
                            fi_addr_t destination, void *context)
{
    const struct iovec iov = {(void *)buffer, bytes};
    struct message message = plain(fid, &iov, &desc, 1, context);
    (void)destination;
    message.flags |= FI_REMOTE_CQ_DATA;
    message.data = data;
    return transmit(fid, &message);
}

/* Without a completion, and the buffer is the program's again. */
static ssize_t inject_with(struct fid_ep *fid, const void *buffer, size_t bytes, uint64_t flags,
                           uint64_t data)
{
    const struct iovec iov = {(void *)buffer, bytes};
    const struct message message = {.iov = &iov, .count = 1, .flags = FI_INJECT | flags, .data = data};
    return transmit(fid, &message);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buffer, size_t bytes, fi_addr_t destination)
{
    (void)destination;
    return inject_with(fid, buffer, bytes, 0, 0);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buffer, size_t bytes, uint64_t data,
                              fi_addr_t destination)
{
    (void)destination;
    return inject_with(fid, buffer, bytes, FI_REMOTE_CQ_DATA, data);
}

struct fi_ops_msg prov_msg_ops = {
    .size = sizeof(struct fi_ops_msg),
    .recv = msg_recv,
    .recvv = msg_recvv,
    .recvmsg = msg_recvmsg,
    .send = msg_send,
    .sendv = msg_sendv,
    .sendmsg = msg_sendmsg,
    .inject = msg_inject,
    .senddata = msg_senddata,
    .injectdata = msg_injectdata,
};
