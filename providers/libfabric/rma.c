/* SPDX-License-Identifier: MIT */
/*
 * Reading and writing the peer's memory. What fits into one transfer of the device is one
 * descriptor. What is longer goes in parts (struct prov_transfer): some are under way at a time,
 * the next ones are posted as these end, and the last one is the operation whose completion the
 * program sees. Meanwhile nothing else is sent, because it would overtake the parts.
 *
 * A write that is to be complete when it is in the peer's memory (FI_DELIVERY_COMPLETE) goes the
 * same way: its last part is a read of the peer's credits, which comes back behind the writes.
 */
#include <string.h>

#include "provider.h"

static const uint64_t possible_rma_flags = FI_INJECT | FI_COMPLETION | FI_REMOTE_CQ_DATA | FI_MORE |
                                           FI_PRIORITY | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
                                           FI_DELIVERY_COMPLETE | FI_FENCE;

/* An operation that a program asks for. */
struct request {
    const struct iovec *iov;
    void *const *desc;
    size_t count;
    uint64_t address, key;
    void *context;
    uint64_t flags;
    uint64_t data;
    bool write;
    bool wanted;
};

/* The address segment; the first one of memory follows it. */
static VIP_DESCRIPTOR_SEGMENT *name_remote(VIP_DESCRIPTOR_SEGMENT *segment, uint64_t address,
                                           VIP_MEM_HANDLE key)
{
    segment->Remote.Data.AddressBits = address;
    segment->Remote.Handle = key;
    segment->Remote.Reserved = 0;
    return segment + 1;
}

static uint16_t control_of(const struct request *request)
{
    uint16_t control = request->write ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_RDMAREAD;
    if ((request->flags & FI_REMOTE_CQ_DATA) != 0) {
        control |= VIP_CONTROL_IMMEDIATE;
    }
    if ((request->flags & FI_FENCE) != 0) {
        control |= VIP_CONTROL_QFENCE;
    }
    return control;
}

/* What the program will see of the operation. */
static void name_completion(struct prov_op *op, const struct request *request, size_t total)
{
    op->entry.context = request->context;
    op->wanted = request->wanted;
    op->entry.flags = (request->write ? FI_WRITE : FI_READ) | FI_RMA;
    op->entry.length = total;
}

/* Bytes of the part that is next; the piece of memory that it is in is the current one then. */
static size_t next_part(struct prov_ep *ep)
{
    struct prov_transfer *transfer = &ep->transfer;
    size_t most = ep->nic->attributes.MaxTransferSize;
    while (transfer->at == transfer->iov[transfer->index].iov_len) {
        transfer->index++;
        transfer->at = 0;
    }
    size_t bytes = transfer->iov[transfer->index].iov_len - transfer->at;
    return bytes < most ? bytes : most;
}

/* Posts a part of the transfer. The immediate data goes with the last bytes. */
static VIP_RETURN post_part(struct prov_ep *ep, struct prov_op *op, size_t bytes)
{
    struct prov_transfer *transfer = &ep->transfer;
    uint16_t control = transfer->control;
    if (bytes < transfer->left) {
        control &= (uint16_t)~VIP_CONTROL_IMMEDIATE;
    }
    op->descriptor.CS.Control = control;
    op->descriptor.CS.SegCount = 2;
    op->descriptor.CS.ImmediateData = transfer->data;
    VIP_DESCRIPTOR_SEGMENT *segment = name_remote(op->descriptor.DS, transfer->address, transfer->key);
    segment->Local.Data.AddressBits = (uintptr_t)transfer->iov[transfer->index].iov_base + transfer->at;
    segment->Local.Handle = transfer->handles[transfer->index];
    segment->Local.Length = (VIP_UINT32)bytes;
    VIP_RETURN rc = VipPostSend(ep->vi, &op->descriptor, ep->pool_handle);
    if (rc == VIP_SUCCESS) {
        transfer->at += bytes;
        transfer->address += bytes;
        transfer->left -= bytes;
    }
    return rc;
}

/* Posts the read behind the writes. What it reads has room in the message that made the connection,
 * and is not looked at. */
static VIP_RETURN post_flush(struct prov_ep *ep, struct prov_op *op)
{
    op->descriptor.CS.Control = VIP_CONTROL_OP_RDMAREAD;
    VIP_DESCRIPTOR_SEGMENT *segment =
        name_remote(op->descriptor.DS, ep->peer_credit_address, ep->peer_credit_handle);
    segment->Local.Data.AddressBits = (uintptr_t)ep->hello->inject;
    segment->Local.Handle = ep->pool_handle;
    segment->Local.Length = sizeof(struct prov_credit);
    op->descriptor.CS.SegCount = 2;
    VIP_RETURN rc = VipPostSend(ep->vi, &op->descriptor, ep->pool_handle);
    if (rc == VIP_SUCCESS) {
        ep->transfer.flush = false;
    }
    return rc;
}

/* The transfer ends here, because a part has failed or cannot be posted. */
static void give_up(struct prov_ep *ep)
{
    struct prov_op *op = ep->transfer.last;
    op->entry.error = ep->transfer.error;
    op->entry.status = ep->transfer.status;
    ep->transfer.last = NULL;
    ep->transfer.left = 0;
    ep->transfer.flush = false;
    prov_cq_add(ep->queues.tx, &op->entry);
}

/* Posts what is next of the transfer; false if that is to wait. */
static bool post_next(struct prov_ep *ep)
{
    struct prov_transfer *transfer = &ep->transfer;
    size_t bytes = transfer->left > 0 ? next_part(ep) : 0;
    bool has_last_byte = transfer->left > 0 && bytes == transfer->left;
    bool last = bytes == 0 || (has_last_byte && !transfer->flush);
    if (has_last_byte && transfer->last->takes_receive && !prov_take_credit(ep)) {
        return false;
    }
    struct prov_op *op = last ? transfer->last : prov_op_take(&ep->part_free);
    if (!last) {
        (void)prov_op_begin(op, PROV_OP_PART, 0);
    }
    VIP_RETURN rc = bytes > 0 ? post_part(ep, op, bytes) : post_flush(ep, op);
    if (rc != VIP_SUCCESS) {
        transfer->error = -prov_error(rc); /* the device lacks memory for it */
        if (!last) {
            prov_op_give(op);
        }
    } else if (!last) {
        transfer->posted++;
    }
    return true;
}

void prov_transfer_continue(struct prov_ep *ep)
{
    struct prov_transfer *transfer = &ep->transfer;
    bool goes_on = true;
    while (goes_on && prov_transfer_goes_on(ep) && transfer->posted < PROV_PART_OPS && transfer->error == 0) {
        goes_on = post_next(ep);
    }
    if (transfer->error != 0 && prov_transfer_goes_on(ep) && transfer->posted == 0) {
        give_up(ep);
    }
}

/* Begins an operation of several descriptors. */
static int begin_transfer(struct prov_ep *ep, struct prov_op *op, const struct request *request, size_t total)
{
    struct prov_transfer *transfer = &ep->transfer;
    memset(transfer, 0, sizeof(*transfer));
    bool injected = (request->flags & FI_INJECT) != 0;
    for (size_t i = 0; i < request->count && !injected; i++) {
        if (request->iov[i].iov_len > 0 && (request->desc == NULL || request->desc[i] == NULL)) {
            PROV_LOG(FI_LOG_WARN, FI_LOG_EP_DATA, "memory without the descriptor of its region\n");
            prov_op_give(op);
            return -FI_EINVAL;
        }
        transfer->iov[i] = request->iov[i];
        transfer->handles[i] = request->iov[i].iov_len > 0 ? prov_mr_handle(request->desc[i]) : 0;
    }
    if (injected) {
        (void)prov_gather(op->inject, request->iov, request->count); /* the bytes are the program's again */
        transfer->iov[0] = (struct iovec){op->inject, total};
        transfer->handles[0] = ep->pool_handle;
    }
    transfer->address = request->address;
    transfer->key = (VIP_MEM_HANDLE)request->key;
    transfer->control = control_of(request);
    transfer->data = (uint32_t)request->data;
    transfer->left = total;
    transfer->flush = request->write && (request->flags & FI_DELIVERY_COMPLETE) != 0;
    transfer->last = op;
    (void)prov_op_begin(op, request->write ? PROV_OP_WRITE : PROV_OP_READ, 0);
    name_completion(op, request, total);
    op->takes_receive = (request->flags & FI_REMOTE_CQ_DATA) != 0;
    prov_push_ep(ep);
    return 0;
}

/* Posts an operation of one descriptor. */
static int post_whole(struct prov_ep *ep, struct prov_op *op, const struct request *request, size_t total)
{
    VIP_DESCRIPTOR_SEGMENT *segment =
        name_remote(prov_op_begin(op, request->write ? PROV_OP_WRITE : PROV_OP_READ, control_of(request)),
                    request->address, (VIP_MEM_HANDLE)request->key);
    int rc = 0;
    name_completion(op, request, total);
    op->descriptor.CS.ImmediateData = (uint32_t)request->data;
    if ((request->flags & FI_INJECT) != 0) {
        (void)prov_gather(op->inject, request->iov, request->count); /* the bytes are the program's again */
        prov_op_own_bytes(op, segment, total);
    } else {
        rc = prov_fill(op, segment, request->iov, request->desc, request->count);
    }
    if (rc != 0) {
        prov_op_give(op);
        return rc;
    }
    op->takes_receive = (request->flags & FI_REMOTE_CQ_DATA) != 0;
    return prov_submit(ep, op);
}

/* The caller has the lock. */
static int post(struct prov_ep *ep, const struct request *request, size_t total)
{
    bool delivered = request->write && (request->flags & FI_DELIVERY_COMPLETE) != 0 && total > 0;
    bool in_parts = delivered || total > ep->nic->attributes.MaxTransferSize;
    int rc = prov_ep_can_send(ep);
    if (rc != 0) {
        return rc;
    }
    if (in_parts && (prov_is_waiting(ep) || ep->transfer.last != NULL)) {
        return -FI_EAGAIN; /* there is one such operation at a time */
    }
    struct prov_op *op = prov_op_take(&ep->tx_free);
    if (op == NULL) {
        prov_ep_reap_sends(ep);
        return -FI_EAGAIN;
    }
    return in_parts ? begin_transfer(ep, op, request, total) : post_whole(ep, op, request, total);
}

static ssize_t start(struct fid_ep *fid, const struct request *request)
{
    struct prov_ep *ep = prov_ep_of(fid);
    size_t total = 0;
    if (request->count > PROV_IOVS || request->data > UINT32_MAX || request->key > UINT32_MAX) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_DATA, "not an operation: %zu pieces, key %#llx\n", request->count,
                 (unsigned long long)request->key);
        return -FI_EINVAL;
    }
    for (size_t i = 0; i < request->count; i++) {
        total += request->iov[i].iov_len;
    }
    if (total > ep->info->ep_attr->max_msg_size ||
        ((request->flags & FI_INJECT) != 0 && total > PROV_INJECT)) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_DATA, "an operation of %zu bytes is too long\n", total);
        return -FI_EMSGSIZE;
    }
    if ((request->flags & FI_REMOTE_CQ_DATA) != 0 &&
        (!request->write || (ep->info->mode & FI_RX_CQ_DATA) == 0)) {
        PROV_LOG(FI_LOG_WARN, FI_LOG_EP_DATA, "data with an RDMA Write needs the mode FI_RX_CQ_DATA\n");
        return -FI_EOPNOTSUPP;
    }
    ssize_t rc = prov_check_flags(request->flags, possible_rma_flags);
    if (rc == 0) {
        prov_nic_lock(ep->nic);
        rc = post(ep, request, total);
        prov_nic_unlock(ep->nic);
    }
    return rc;
}

/* What a call without flags of its own asks for: with the flags of the endpoint. */
static struct request plain(struct fid_ep *fid, bool write, const struct iovec *iov, void *const *desc,
                            size_t count, void *context)
{
    const struct prov_ep *ep = prov_ep_of(fid);
    uint64_t flags = ep->info->tx_attr->op_flags;
    return (struct request){.iov = iov,
                            .desc = desc,
                            .count = count,
                            .context = context,
                            .flags = write ? flags : flags & ~(uint64_t)FI_INJECT,
                            .write = write,
                            .wanted = !ep->queues.tx_selective || (flags & FI_COMPLETION) != 0};
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                         fi_addr_t source, uint64_t address, uint64_t key, void *context)
{
    struct request request = plain(fid, false, iov, desc, count, context);
    (void)source;
    request.address = address;
    request.key = key;
    return start(fid, &request);
}

static ssize_t rma_read(struct fid_ep *fid, void *buffer, size_t bytes, void *desc, fi_addr_t source,
                        uint64_t address, uint64_t key, void *context)
{
    const struct iovec iov = {buffer, bytes};
    return rma_readv(fid, &iov, &desc, 1, source, address, key, context);
}

static ssize_t from_message(struct fid_ep *fid, bool write, const struct fi_msg_rma *message, uint64_t flags)
{
    struct request request =
        plain(fid, write, message->msg_iov, message->desc, message->iov_count, message->context);
    if (message->rma_iov_count != 1) {
        return -FI_EINVAL;
    }
    request.address = message->rma_iov[0].addr;
    request.key = message->rma_iov[0].key;
    request.flags = flags;
    request.data = (flags & FI_REMOTE_CQ_DATA) != 0 ? message->data : 0;
    request.wanted = !prov_ep_of(fid)->queues.tx_selective || (flags & FI_COMPLETION) != 0;
    return start(fid, &request);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *message, uint64_t flags)
{
    return from_message(fid, false, message, flags);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
                          fi_addr_t destination, uint64_t address, uint64_t key, void *context)
{
    struct request request = plain(fid, true, iov, desc, count, context);
    (void)destination;
    request.address = address;
    request.key = key;
    return start(fid, &request);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buffer, size_t bytes, void *desc,
                         fi_addr_t destination, uint64_t address, uint64_t key, void *context)
{
    const struct iovec iov = {(void *)buffer, bytes};
    return rma_writev(fid, &iov, &desc, 1, destination, address, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *message, uint64_t flags)
{
    return from_message(fid, true, message, flags);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buffer, size_t bytes, void *desc, uint64_t data,
                             fi_addr_t destination, uint64_t address, uint64_t key, void *context)
{
    const struct iovec iov = {(void *)buffer, bytes};
    struct request request = plain(fid, true, &iov, &desc, 1, context);
    (void)destination;
    request.address = address;
    request.key = key;
    request.flags |= FI_REMOTE_CQ_DATA;
    request.data = data;
    return start(fid, &request);
}

static ssize_t inject_with(struct fid_ep *fid, const struct iovec *iov, uint64_t address, uint64_t key,
                           uint64_t flags, uint64_t data)
{
    const struct request request = {.iov = iov,
                                    .count = 1,
                                    .address = address,
                                    .key = key,
                                    .flags = FI_INJECT | flags,
                                    .data = data,
                                    .write = true};
    return start(fid, &request);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buffer, size_t bytes, fi_addr_t destination,
                          uint64_t address, uint64_t key)
{
    const struct iovec iov = {(void *)buffer, bytes};
    (void)destination;
    return inject_with(fid, &iov, address, key, 0, 0);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buffer, size_t bytes, uint64_t data,
                              fi_addr_t destination, uint64_t address, uint64_t key)
{
    const struct iovec iov = {(void *)buffer, bytes};
    (void)destination;
    return inject_with(fid, &iov, address, key, FI_REMOTE_CQ_DATA, data);
}

struct fi_ops_rma prov_rma_ops = {
    .size = sizeof(struct fi_ops_rma),
    .read = rma_read,
    .readv = rma_readv,
    .readmsg = rma_readmsg,
    .write = rma_write,
    .writev = rma_writev,
    .writemsg = rma_writemsg,
    .inject = rma_inject,
    .writedata = rma_writedata,
    .injectdata = rma_injectdata,
};
