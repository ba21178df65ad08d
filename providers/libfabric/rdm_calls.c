/* SPDX-License-Identifier: MIT */
/* What programs call to send and to receive by a datagram endpoint. */
#include "rdm.h"

/* What a call without flags of its own sends: with the flags of the endpoint. */
static struct rdm_message message_of(struct fid_ep *fid, const struct iovec *iov, size_t count, fi_addr_t to,
                                     void *context)
{
    const struct rdm_ep *ep = rdm_of(fid);
    uint64_t flags = ep->info->tx_attr->op_flags;
    return (struct rdm_message){.iov = iov,
                                .count = count,
                                .to = to,
                                .context = context,
                                .flags = flags & ~(uint64_t)FI_INJECT,
                                .wanted = !ep->queues.tx_selective || (flags & FI_COMPLETION) != 0};
}

static ssize_t plain_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                           fi_addr_t to, void *context)
{
    struct rdm_message message = message_of(fid, iov, count, to, context);
    (void)desc;
    return rdm_send(rdm_of(fid), &message);
}

static ssize_t plain_send(struct fid_ep *fid, const void *buffer, size_t bytes, void *desc, fi_addr_t to,
                          void *context)
{
    const struct iovec iov = {(void *)buffer, bytes};
    return plain_sendv(fid, &iov, &desc, 1, to, context);
}

static ssize_t plain_sendmsg(struct fid_ep *fid, const struct fi_msg *from, uint64_t flags)
{
    struct rdm_message message = message_of(fid, from->msg_iov, from->iov_count, from->addr, from->context);
    message.flags = flags;
    message.data = (flags & FI_REMOTE_CQ_DATA) != 0 ? from->data : 0;
    message.wanted = !rdm_of(fid)->queues.tx_selective || (flags & FI_COMPLETION) != 0;
    return rdm_send(rdm_of(fid), &message);
}

static ssize_t plain_senddata(struct fid_ep *fid, const void *buffer, size_t bytes, void *desc, uint64_t data,
                              fi_addr_t to, void *context)
{
    const struct iovec iov = {(void *)buffer, bytes};
    struct rdm_message message = message_of(fid, &iov, 1, to, context);
    (void)desc;
    message.flags |= FI_REMOTE_CQ_DATA;
    message.data = data;
    return rdm_send(rdm_of(fid), &message);
}

/* Without a completion, and the buffer is the program's again. */
static ssize_t inject(struct fid_ep *fid, const struct iovec *iov, fi_addr_t to, uint64_t flags,
                      uint64_t data, uint64_t tag, bool tagged)
{
    struct rdm_message message = {.iov = iov,
                                  .count = 1,
                                  .to = to,
                                  .flags = FI_INJECT | flags,
                                  .data = data,
                                  .tag = tag,
                                  .tagged = tagged};
    return rdm_send(rdm_of(fid), &message);
}

static ssize_t plain_inject(struct fid_ep *fid, const void *buffer, size_t bytes, fi_addr_t to)
{
    const struct iovec iov = {(void *)buffer, bytes};
    return inject(fid, &iov, to, 0, 0, 0, false);
}

static ssize_t plain_injectdata(struct fid_ep *fid, const void *buffer, size_t bytes, uint64_t data,
                                fi_addr_t to)
{
    const struct iovec iov = {(void *)buffer, bytes};
    return inject(fid, &iov, to, FI_REMOTE_CQ_DATA, data, 0, false);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t to, uint64_t tag, void *context)
{
    struct rdm_message message = message_of(fid, iov, count, to, context);
    (void)desc;
    message.tagged = true;
    message.tag = tag;
    return rdm_send(rdm_of(fid), &message);
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buffer, size_t bytes, void *desc, fi_addr_t to,
                           uint64_t tag, void *context)
{
    const struct iovec iov = {(void *)buffer, bytes};
    return tagged_sendv(fid, &iov, &desc, 1, to, tag, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *from, uint64_t flags)
{
    struct rdm_message message = message_of(fid, from->msg_iov, from->iov_count, from->addr, from->context);
    message.flags = flags;
    message.data = (flags & FI_REMOTE_CQ_DATA) != 0 ? from->data : 0;
    message.wanted = !rdm_of(fid)->queues.tx_selective || (flags & FI_COMPLETION) != 0;
    message.tagged = true;
    message.tag = from->tag;
    return rdm_send(rdm_of(fid), &message);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buffer, size_t bytes, void *desc,
                               uint64_t data, fi_addr_t to, uint64_t tag, void *context)
{
    const struct iovec iov = {(void *)buffer, bytes};
    struct rdm_message message = message_of(fid, &iov, 1, to, context);
    (void)desc;
    message.flags |= FI_REMOTE_CQ_DATA;
    message.data = data;
    message.tagged = true;
    message.tag = tag;
    return rdm_send(rdm_of(fid), &message);
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buffer, size_t bytes, fi_addr_t to, uint64_t tag)
{
    const struct iovec iov = {(void *)buffer, bytes};
    return inject(fid, &iov, to, 0, 0, tag, true);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buffer, size_t bytes, uint64_t data,
                                 fi_addr_t to, uint64_t tag)
{
    const struct iovec iov = {(void *)buffer, bytes};
    return inject(fid, &iov, to, FI_REMOTE_CQ_DATA, data, tag, true);
}

static ssize_t plain_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                           fi_addr_t from, void *context)
{
    (void)desc;
    return rdm_receive(rdm_of(fid), iov, count, from, 0, 0, context, rdm_of(fid)->info->rx_attr->op_flags,
                       false);
}

static ssize_t plain_recv(struct fid_ep *fid, void *buffer, size_t bytes, void *desc, fi_addr_t from,
                          void *context)
{
    const struct iovec iov = {buffer, bytes};
    return plain_recvv(fid, &iov, &desc, 1, from, context);
}

static ssize_t plain_recvmsg(struct fid_ep *fid, const struct fi_msg *message, uint64_t flags)
{
    return rdm_receive(rdm_of(fid), message->msg_iov, message->iov_count, message->addr, 0, 0,
                       message->context, flags, false);
}

static ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                            fi_addr_t from, uint64_t tag, uint64_t ignored, void *context)
{
    (void)desc;
    return rdm_receive(rdm_of(fid), iov, count, from, tag, ignored, context,
                       rdm_of(fid)->info->rx_attr->op_flags, true);
}

static ssize_t tagged_recv(struct fid_ep *fid, void *buffer, size_t bytes, void *desc, fi_addr_t from,
                           uint64_t tag, uint64_t ignored, void *context)
{
    const struct iovec iov = {buffer, bytes};
    return tagged_recvv(fid, &iov, &desc, 1, from, tag, ignored, context);
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *message, uint64_t flags)
{
    return rdm_receive(rdm_of(fid), message->msg_iov, message->iov_count, message->addr, message->tag,
                       message->ignore, message->context, flags, true);
}

struct fi_ops_msg rdm_msg_ops = {
    .size = sizeof(struct fi_ops_msg),
    .recv = plain_recv,
    .recvv = plain_recvv,
    .recvmsg = plain_recvmsg,
    .send = plain_send,
    .sendv = plain_sendv,
    .sendmsg = plain_sendmsg,
    .inject = plain_inject,
    .senddata = plain_senddata,
    .injectdata = plain_injectdata,
};

struct fi_ops_tagged rdm_tagged_ops = {
    .size = sizeof(struct fi_ops_tagged),
    .recv = tagged_recv,
    .recvv = tagged_recvv,
    .recvmsg = tagged_recvmsg,
    .send = tagged_send,
    .sendv = tagged_sendv,
    .sendmsg = tagged_sendmsg,
    .inject = tagged_inject,
    .senddata = tagged_senddata,
    .injectdata = tagged_injectdata,
};
